/* Applies deltas to their books: the counterpart of `SequencedBook.receive` for the usual case.

   That is a delta which follows the one before it, for a synced book that nothing else listens to,
   with levels that the compiled book takes. Every other delta is handed to Python, in its turn and
   before anything has changed. */

#include "hot.h"

enum { SYMBOL, FIRST_ID, FINAL_ID, BIDS, ASKS, DELTA_FIELDS };
enum { STATE, UPDATE_ID, LEVELS, SHADOW, HELD, RECENT, BOOK_FIELDS };
enum { BOOK, IN_PYTHON, LEVELS_FIELDS };

enum { APPLIED = 1, LEFT = 0, FAILED = -1 };

typedef struct {
    PyObject_HEAD
    PyObject *delta_kind, *book_kind, *levels_kind, *compiled_kind;
    PyObject *symbol_kind; /* NULL if its comparison may run Python code */
    PyObject *synced;  /* the state of a book that follows its deltas */
    PyObject *crossed; /* the name of the method for a book that has crossed */
    Py_ssize_t delta_at[DELTA_FIELDS], book_at[BOOK_FIELDS], levels_at[LEVELS_FIELDS];
} Updater;

static int is_empty(PyObject *held)
{
    Py_ssize_t size = held == NULL ? 1 : PyObject_Size(held);
    if (size < 0)
        PyErr_Clear(); /* not a container: Python says what is wrong with it */
    return size == 0;
}

/* What the delta is applied to; NULL if that is left to Python. */
static PyObject *levels_for(const Updater *updater, PyObject *book, PyObject *delta)
{
    PyObject *levels, *compiled;
    int64_t update_id, first_id, final_id;
    if ((PyObject *)Py_TYPE(book) != updater->book_kind
        || slot_at(book, updater->book_at[STATE]) != updater->synced
        || slot_at(book, updater->book_at[SHADOW]) != Py_None
        || slot_at(book, updater->book_at[RECENT]) != Py_None
        || !is_empty(slot_at(book, updater->book_at[HELD]))
        || !whole_of(slot_at(book, updater->book_at[UPDATE_ID]), &update_id)
        || !whole_of(slot_at(delta, updater->delta_at[FIRST_ID]), &first_id)
        || !whole_of(slot_at(delta, updater->delta_at[FINAL_ID]), &final_id)
        || update_id == INT64_MAX || first_id > update_id + 1 || final_id <= update_id)
        return NULL;
    levels = slot_at(book, updater->book_at[LEVELS]);
    if (levels == NULL || (PyObject *)Py_TYPE(levels) != updater->levels_kind
        || slot_at(levels, updater->levels_at[IN_PYTHON]) != Py_None)
        return NULL;
    compiled = slot_at(levels, updater->levels_at[BOOK]);
    if (compiled == NULL || (PyObject *)Py_TYPE(compiled) != updater->compiled_kind)
        return NULL;
    return compiled;
}

static int apply(const void *self, PyObject *books, PyObject *delta)
{
    const Updater *updater = self;
    PyObject *symbol, *book, *levels, *bids, *asks, *done;
    int outcome;
    if ((PyObject *)Py_TYPE(delta) != updater->delta_kind)
        return APPLIED; /* another event */
    if ((symbol = slot_at(delta, updater->delta_at[SYMBOL])) == NULL)
        return LEFT;
    if ((book = PyDict_GetItemWithError(books, symbol)) == NULL)
        return PyErr_Occurred() ? FAILED : APPLIED; /* nobody keeps this book */
    if ((levels = levels_for(updater, book, delta)) == NULL)
        return LEFT;
    bids = slot_at(delta, updater->delta_at[BIDS]);
    asks = slot_at(delta, updater->delta_at[ASKS]);
    outcome = bids == NULL || asks == NULL ? 1 : change_book(levels, bids, asks);
    if (outcome != 0)
        return outcome < 0 ? FAILED : LEFT;
    set_slot(book, updater->book_at[UPDATE_ID],
             Py_NewRef(slot_at(delta, updater->delta_at[FINAL_ID])));
    if (!has_crossed(levels))
        return APPLIED;
    Py_INCREF(book);
    done = PyObject_CallMethodObjArgs(book, updater->crossed, NULL);
    Py_DECREF(book);
    Py_XDECREF(done);
    return done == NULL ? FAILED : APPLIED;
}

/* Prefetches the books of deltas, field by field: for each the next one is known only when
   the one before is there. */
static void prefetch_books(const Updater *updater, PyObject *events, PyObject *books)
{
    Py_ssize_t count = PyList_Size(events), found = 0;
    PyObject **at = PyMem_Malloc((size_t)count * sizeof(PyObject *));
    for (Py_ssize_t i = 0; at != NULL && i < count; i++) {
        PyObject *delta = PyList_GetItem(events, i), *symbol, *book;
        if ((PyObject *)Py_TYPE(delta) != updater->delta_kind
            || (symbol = slot_at(delta, updater->delta_at[SYMBOL])) == NULL
            || (PyObject *)Py_TYPE(symbol) != updater->symbol_kind
            || (book = PyDict_GetItemWithError(books, symbol)) == NULL)
            continue;
        prefetch(book, 2 * CACHE_LINE);
        at[found++] = book;
    }
    for (Py_ssize_t i = 0; i < found; i++)
        if ((PyObject *)Py_TYPE(at[i]) == updater->book_kind)
            prefetch_fields(at[i], updater->book_at, BOOK_FIELDS);
        else
            at[i] = NULL;
    for (Py_ssize_t i = 0; i < found; i++) {
        PyObject *levels = at[i] == NULL ? NULL : slot_at(at[i], updater->book_at[LEVELS]);
        at[i] = levels != NULL && (PyObject *)Py_TYPE(levels) == updater->levels_kind
                    ? slot_at(levels, updater->levels_at[BOOK])
                    : NULL;
        if (at[i] != NULL)
            prefetch(at[i], BOOK_BYTES);
    }
    for (Py_ssize_t i = 0; i < found; i++)
        if (at[i] != NULL && (PyObject *)Py_TYPE(at[i]) == updater->compiled_kind)
            prefetch_best(at[i]);
    PyMem_Free(at);
}

PyDoc_STRVAR(apply_doc, "apply(events, books, otherwise)\n--\n\n"
                        "Apply the deltas among the events to their books, in this order; those"
                        " that are not the usual case are passed to ``otherwise``.");

static PyObject *updater_apply(PyObject *self, PyObject *args)
{
    PyObject *given, *events, *books, *otherwise;
    int failed;
    if (!PyArg_ParseTuple(args, "OO!O", &given, &PyDict_Type, &books, &otherwise)
        || (events = PySequence_List(given)) == NULL) /* its own: Python code may run */
        return NULL;
    if (PyDict_Size(books) >= MANY)
        prefetch_books((Updater *)self, events, books);
    failed = handle_list(self, events, books, otherwise, apply);
    Py_DECREF(events);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* ---- the type ---- */

static void updater_free(PyObject *self)
{
    Updater *updater = (Updater *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(updater->delta_kind);
    Py_XDECREF(updater->book_kind);
    Py_XDECREF(updater->levels_kind);
    Py_XDECREF(updater->compiled_kind);
    Py_XDECREF(updater->symbol_kind);
    Py_XDECREF(updater->synced);
    Py_XDECREF(updater->crossed);
    release(self);
    Py_DECREF(type);
}

/* The class of symbols, unless it has a comparison of its own. */
static int find_symbol_kind(Updater *updater, PyObject *delta)
{
    PyObject *symbol = PyObject_GetAttrString(delta, "symbol");
    PyTypeObject *kind;
    if (symbol == NULL)
        return -1;
    kind = Py_TYPE(symbol);
    if (PyType_GetSlot(kind, Py_tp_hash) == PyType_GetSlot(&PyBaseObject_Type, Py_tp_hash)
        && PyType_GetSlot(kind, Py_tp_richcompare)
               == PyType_GetSlot(&PyBaseObject_Type, Py_tp_richcompare))
        updater->symbol_kind = Py_NewRef((PyObject *)kind);
    Py_DECREF(symbol);
    return 0;
}

static PyObject *updater_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"delta", "delta_fields", "book", "book_fields", "levels",
                            "levels_fields", "synced", "crossed", NULL};
    State *state = PyType_GetModuleState(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *delta, *delta_fields, *book, *book_fields, *levels, *levels_fields, *synced, *crossed;
    Updater *updater;
    if (state == NULL
        || !PyArg_ParseTupleAndKeywords(args, keywords, "OO!OO!OO!UU", names, &delta, &PyTuple_Type,
                                        &delta_fields, &book, &PyTuple_Type, &book_fields, &levels,
                                        &PyTuple_Type, &levels_fields, &synced, &crossed)
        || (updater = (Updater *)allocate(type, 0)) == NULL)
        return NULL;
    if (find_symbol_kind(updater, delta) < 0) {
        Py_DECREF(updater);
        return NULL;
    }
    updater->compiled_kind = Py_NewRef(state->book);
    updater->synced = Py_NewRef(synced);
    updater->crossed = Py_NewRef(crossed);
    updater->delta_kind = probe(delta, delta_fields, DELTA_FIELDS, updater->delta_at);
    if (updater->delta_kind != NULL)
        updater->book_kind = probe(book, book_fields, BOOK_FIELDS, updater->book_at);
    if (updater->book_kind != NULL)
        updater->levels_kind = probe(levels, levels_fields, LEVELS_FIELDS, updater->levels_at);
    if (updater->levels_kind == NULL) {
        Py_DECREF(updater);
        return NULL;
    }
    return (PyObject *)updater;
}

static PyMethodDef updater_methods[] = {
    {"apply", updater_apply, METH_VARARGS, apply_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot updater_slots[] = {
    {Py_tp_doc, "Applies deltas to sequenced books."},
    {Py_tp_new, updater_new},
    {Py_tp_dealloc, updater_free},
    {Py_tp_methods, updater_methods},
    {0, NULL},
};

PyType_Spec updater_spec = {
    .name = "penstock.compiled._hot.Updater",
    .basicsize = sizeof(Updater),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = updater_slots,
};
