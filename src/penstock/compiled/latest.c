/* Keeps the last event of each class and symbol: the counterpart of `LatestEvents`.

   Symbols are compared by identity, as everywhere: equal ones are the same object. */

#include "hot.h"

#define LEAST_PLACES 64

/* The last event of a class and symbol; all three are held. */
typedef struct {
    PyObject *kind, *symbol, *event;
} Item;

typedef struct {
    PyObject_HEAD
    PyObject *name;  /* of the field that has the symbol */
    Item *items;     /* in the order of their first events */
    Py_ssize_t count;
    int32_t *places; /* by hash: the number of an item and one, or 0; half of them are free */
    Py_ssize_t room; /* of places; a power of two */
} Latest;

static Py_ssize_t place_of(const Latest *latest, PyObject *kind, PyObject *symbol)
{
    uint64_t hash = ((uint64_t)(uintptr_t)symbol ^ ((uint64_t)(uintptr_t)kind << 7))
                    * 0x9E3779B97F4A7C15u;
    Py_ssize_t mask = latest->room - 1, at = (Py_ssize_t)(hash >> 32) & mask;
    for (int32_t number; (number = latest->places[at]) != 0; at = (at + 1) & mask) {
        const Item *item = &latest->items[number - 1];
        if (item->symbol == symbol && item->kind == kind)
            break;
    }
    return at;
}

/* Room for one more; -1 with an exception set. */
static int reserve(Latest *latest)
{
    Py_ssize_t room = latest->room ? latest->room * 2 : LEAST_PLACES;
    Item *items;
    int32_t *places;
    if (latest->count * 2 < latest->room)
        return 0;
    items = room > INT32_MAX ? NULL
                             : PyMem_Realloc(latest->items, (size_t)room / 2 * sizeof(Item));
    if (items != NULL)
        latest->items = items;
    places = items == NULL ? NULL : PyMem_Calloc((size_t)room, sizeof(int32_t));
    if (places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(latest->places);
    latest->places = places;
    latest->room = room;
    for (int32_t i = 0; i < latest->count; i++)
        places[place_of(latest, items[i].kind, items[i].symbol)] = i + 1;
    return 0;
}

/* 0, or -1 with an exception set. */
static int note(Latest *latest, PyObject *event)
{
    PyObject *kind = (PyObject *)Py_TYPE(event), *symbol = PyObject_GetAttr(event, latest->name);
    PyObject *before = NULL;
    Py_ssize_t at;
    if (symbol == NULL || reserve(latest) < 0) {
        Py_XDECREF(symbol);
        return -1;
    }
    at = place_of(latest, kind, symbol);
    if (latest->places[at]) {
        Item *item = &latest->items[latest->places[at] - 1];
        before = item->event;
        item->event = Py_NewRef(event);
    } else {
        latest->items[latest->count++] = (Item){Py_NewRef(kind), Py_NewRef(symbol),
                                                Py_NewRef(event)};
        latest->places[at] = (int32_t)latest->count;
    }
    Py_DECREF(symbol);
    Py_XDECREF(before);
    return 0;
}

PyDoc_STRVAR(note_doc, "note(events)\n--\n\nReplace the last event of each class and symbol.");

static PyObject *latest_note(PyObject *self, PyObject *given)
{
    PyObject *events = PySequence_List(given); /* its own: a field may run Python code */
    int failed = events == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(events); i++)
        failed = note((Latest *)self, PyList_GetItem(events, i)) < 0;
    Py_XDECREF(events);
    return failed ? NULL : Py_NewRef(Py_None);
}

static void clear(Latest *latest)
{
    Item *items = latest->items;
    Py_ssize_t count = latest->count;
    latest->items = NULL;
    latest->count = latest->room = 0;
    PyMem_Free(latest->places);
    latest->places = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(items[i].kind);
        Py_DECREF(items[i].symbol);
        Py_DECREF(items[i].event);
    }
    PyMem_Free(items);
}

PyDoc_STRVAR(take_doc, "take()\n--\n\nReturn the last events, and forget them.");

static PyObject *latest_take(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Latest *latest = (Latest *)self;
    PyObject *events = PyList_New(latest->count);
    if (events == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < latest->count; i++)
        PyList_SetItem(events, i, Py_NewRef(latest->items[i].event)); /* cannot fail */
    clear(latest);
    return events;
}

/* ---- the type ---- */

static int latest_visit(PyObject *self, visitproc visit, void *arg)
{
    Latest *latest = (Latest *)self;
    Py_VISIT(Py_TYPE(self));
    for (Py_ssize_t i = 0; i < latest->count; i++) {
        Py_VISIT(latest->items[i].kind);
        Py_VISIT(latest->items[i].symbol);
        Py_VISIT(latest->items[i].event);
    }
    return 0;
}

static int latest_clear(PyObject *self)
{
    clear((Latest *)self);
    return 0;
}

static void latest_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    clear((Latest *)self);
    Py_XDECREF(((Latest *)self)->name);
    release(self);
    Py_DECREF(type);
}

static PyObject *latest_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Latest *latest;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "", names)
        || (latest = (Latest *)allocate(type, 0)) == NULL)
        return NULL;
    if ((latest->name = PyUnicode_InternFromString("symbol")) == NULL) {
        Py_DECREF(latest);
        return NULL;
    }
    return (PyObject *)latest;
}

static PyMethodDef latest_methods[] = {
    {"note", latest_note, METH_O, note_doc},
    {"take", latest_take, METH_NOARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot latest_slots[] = {
    {Py_tp_doc, "The last event of each class and symbol."},
    {Py_tp_new, latest_new},
    {Py_tp_dealloc, latest_free},
    {Py_tp_traverse, latest_visit},
    {Py_tp_clear, latest_clear},
    {Py_tp_methods, latest_methods},
    {0, NULL},
};

PyType_Spec latest_spec = {
    .name = "penstock.compiled._hot.Latest",
    .basicsize = sizeof(Latest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = latest_slots,
};
