/* Gathers records by stream: the counterpart of `GrowingBatch.add` for the usual case.

   That is a record which follows the last one of its stream: the next number, the same source, and
   the next id or none. Every other record is handed to Python, in its turn and before anything has
   changed. */

#include "hot.h"

#define ID_BYTES 8
#define FIRST_NOT_ID 0xFE /* keys that begin so are no plain ids */

enum { STREAM, NUMBER, KEY, EVENT, RECORD_FIELDS };
enum { SOURCE, LAST, COUNT, NEXT_ID, RANGES, BATCH_FIELDS };

typedef struct {
    PyObject_HEAD
    PyObject *record_kind, *batch_kind;
    PyObject *source; /* the name of that field */
    PyObject *marker; /* the class of events before which everything else has to be passed on */
    Py_ssize_t record_at[RECORD_FIELDS], batch_at[BATCH_FIELDS];
} Gatherer;

/* The id in a key; 0 if it is none, or not a plain one. */
static int id_of(PyObject *key, int64_t *id)
{
    const unsigned char *at;
    uint64_t found = 0;
    if (key == NULL || !PyBytes_CheckExact(key) || PyBytes_Size(key) != ID_BYTES)
        return 0;
    at = (const unsigned char *)PyBytes_AsString(key);
    if (*at >= FIRST_NOT_ID)
        return 0;
    for (int i = 0; i < ID_BYTES; i++)
        found = found << 8 | at[i];
    *id = (int64_t)found;
    return found < INT64_MAX;
}

/* Whether the source of an event is this very object; -1 with an exception set. */
static int has_source(const Gatherer *gatherer, PyObject *event, PyObject *source)
{
    PyObject *found;
    if (event == NULL || event == Py_None)
        return 0;
    if ((found = PyObject_GetAttr(event, gatherer->source)) == NULL)
        return -1;
    Py_DECREF(found);
    return found == source;
}

/* Whether a batch grew by a record: 1, 0 if Python has to see to it, -1 with an exception set. */
static int add(const Gatherer *gatherer, PyObject *batch, PyObject *record)
{
    const Py_ssize_t *of_batch = gatherer->batch_at, *of_record = gatherer->record_at;
    PyObject *last, *ranges, *more, *next = NULL;
    int64_t number, before, count, id, next_id;
    int by_id, same;
    if ((PyObject *)Py_TYPE(batch) != gatherer->batch_kind
        || (last = slot_at(batch, of_batch[LAST])) == NULL
        || (PyObject *)Py_TYPE(last) != gatherer->record_kind
        || !whole_of(slot_at(last, of_record[NUMBER]), &before)
        || !whole_of(slot_at(record, of_record[NUMBER]), &number) || before == INT64_MAX
        || number != before + 1 || !whole_of(slot_at(batch, of_batch[COUNT]), &count)
        || (ranges = slot_at(batch, of_batch[RANGES])) == NULL)
        return 0;
    by_id = ranges != Py_None;
    if (by_id
        && (!id_of(slot_at(record, of_record[KEY]), &id)
            || !whole_of(slot_at(batch, of_batch[NEXT_ID]), &next_id) || id != next_id))
        return 0;
    same = has_source(gatherer, slot_at(record, of_record[EVENT]), slot_at(batch, of_batch[SOURCE]));
    if (same <= 0)
        return same;
    if ((more = PyLong_FromLongLong(count + 1)) == NULL
        || (by_id && (next = PyLong_FromLongLong(id + 1)) == NULL)) {
        Py_XDECREF(more);
        return -1;
    }
    if (by_id)
        set_slot(batch, of_batch[NEXT_ID], next);
    set_slot(batch, of_batch[COUNT], more);
    set_slot(batch, of_batch[LAST], Py_NewRef(record));
    return 1;
}

static int gather(const void *self, PyObject *batches, PyObject *record)
{
    const Gatherer *gatherer = self;
    PyObject *stream, *batch;
    int outcome;
    if ((PyObject *)Py_TYPE(record) != gatherer->record_kind
        || (stream = slot_at(record, gatherer->record_at[STREAM])) == NULL)
        return 0;
    if ((batch = PyDict_GetItemWithError(batches, stream)) == NULL)
        return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(batch);
    outcome = add(gatherer, batch, record);
    Py_DECREF(batch);
    return outcome;
}

/* Whether one of the records is a marker; -1 with an exception set. */
static int has_marker(const Gatherer *gatherer, PyObject *records)
{
    Py_ssize_t count = PyList_Check(records) ? PyList_Size(records) : -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "records are a list");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GetItem(records, i), *event;
        if ((PyObject *)Py_TYPE(record) != gatherer->record_kind)
            continue;
        event = slot_at(record, gatherer->record_at[EVENT]);
        if (event != NULL && (PyObject *)Py_TYPE(event) == gatherer->marker)
            return 1;
    }
    return 0;
}

PyDoc_STRVAR(gather_doc, "gather(records, batches, otherwise)\n--\n\n"
                         "Add each record to the batch of its stream, in this order; those that are"
                         " not the usual case are passed to ``otherwise``. False, and nothing is"
                         " added, if there is a marker among them.");

static PyObject *gatherer_gather(PyObject *self, PyObject *args)
{
    int marked = has_marker((Gatherer *)self, PyTuple_Size(args) ? PyTuple_GetItem(args, 0) : args);
    PyObject *done;
    if (marked)
        return marked < 0 ? NULL : Py_NewRef(Py_False);
    if ((done = handle_each(self, args, gather)) == NULL)
        return NULL;
    Py_DECREF(done);
    Py_RETURN_TRUE;
}

/* ---- the type ---- */

static void gatherer_free(PyObject *self)
{
    Gatherer *gatherer = (Gatherer *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(gatherer->record_kind);
    Py_XDECREF(gatherer->batch_kind);
    Py_XDECREF(gatherer->source);
    Py_XDECREF(gatherer->marker);
    release(self);
    Py_DECREF(type);
}

static PyObject *gatherer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"record", "record_fields", "batch", "batch_fields", "source",
                            "marker", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *record, *record_fields, *batch, *batch_fields, *source, *marker;
    Gatherer *gatherer;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!OO!UO", names, &record,
                                     &PyTuple_Type, &record_fields, &batch, &PyTuple_Type,
                                     &batch_fields, &source, &marker)
        || (gatherer = (Gatherer *)allocate(type, 0)) == NULL)
        return NULL;
    gatherer->source = Py_NewRef(source);
    gatherer->marker = Py_NewRef(marker);
    gatherer->record_kind = probe(record, record_fields, RECORD_FIELDS, gatherer->record_at);
    if (gatherer->record_kind != NULL)
        gatherer->batch_kind = probe(batch, batch_fields, BATCH_FIELDS, gatherer->batch_at);
    if (gatherer->batch_kind == NULL) {
        Py_DECREF(gatherer);
        return NULL;
    }
    return (PyObject *)gatherer;
}

static PyMethodDef gatherer_methods[] = {
    {"gather", gatherer_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot gatherer_slots[] = {
    {Py_tp_doc, "Gathers records by stream."},
    {Py_tp_new, gatherer_new},
    {Py_tp_dealloc, gatherer_free},
    {Py_tp_methods, gatherer_methods},
    {0, NULL},
};

PyType_Spec gatherer_spec = {
    .name = "penstock.compiled._hot.Gatherer",
    .basicsize = sizeof(Gatherer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = gatherer_slots,
};
