/* Gathers records by stream: the counterpart of `GrowingBatch.add` for the usual case.

   That is a record which follows the last one of its stream: the next number, the same source, and
   the next id or none. Every other record is handed to Python, in its turn and before anything has
   changed. */

#include "appended.h"

#define FIRST_NOT_ID 0xFE /* keys that begin so are no plain ids */

enum { RECORD_STREAM, RECORD_NUMBER, RECORD_KEY, RECORD_EVENT, RECORD_FIELDS };
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

/* Whether a record with this number can follow what is in a batch, and what the batch has. */
static int can_follow(const Gatherer *gatherer, PyObject *batch, int64_t number, int64_t *count,
                      int *by_id, int64_t *next_id)
{
    const Py_ssize_t *of_batch = gatherer->batch_at;
    PyObject *last, *ranges;
    int64_t before;
    if ((PyObject *)Py_TYPE(batch) != gatherer->batch_kind
        || (last = slot_at(batch, of_batch[LAST])) == NULL
        || (PyObject *)Py_TYPE(last) != gatherer->record_kind
        || !whole_of(slot_at(last, gatherer->record_at[RECORD_NUMBER]), &before)
        || before == INT64_MAX || number != before + 1
        || !whole_of(slot_at(batch, of_batch[COUNT]), count)
        || (ranges = slot_at(batch, of_batch[RANGES])) == NULL)
        return 0;
    *by_id = ranges != Py_None;
    return !*by_id || whole_of(slot_at(batch, of_batch[NEXT_ID]), next_id);
}

/* Lets a batch have so many records, up to this one; 1, or -1 with an exception set. */
static int grow(const Gatherer *gatherer, PyObject *batch, PyObject *last, int64_t count,
                const int64_t *next_id)
{
    const Py_ssize_t *of_batch = gatherer->batch_at;
    PyObject *of_count = PyLong_FromLongLong(count);
    PyObject *next = next_id == NULL ? NULL : PyLong_FromLongLong(*next_id);
    if (of_count == NULL || (next_id != NULL && next == NULL)) {
        Py_XDECREF(of_count);
        Py_XDECREF(next);
        return -1;
    }
    if (next != NULL)
        set_slot(batch, of_batch[NEXT_ID], next);
    set_slot(batch, of_batch[COUNT], of_count);
    set_slot(batch, of_batch[LAST], Py_NewRef(last));
    return 1;
}

/* Whether a batch grew by a record: 1, 0 if Python has to see to it, -1 with an exception set. */
static int add(const Gatherer *gatherer, PyObject *batch, PyObject *record)
{
    const Py_ssize_t *of_record = gatherer->record_at;
    int64_t number, count, id = 0, next_id = 0;
    int by_id, same;
    if (!whole_of(slot_at(record, of_record[RECORD_NUMBER]), &number)
        || !can_follow(gatherer, batch, number, &count, &by_id, &next_id)
        || (by_id && (!id_of(slot_at(record, of_record[RECORD_KEY]), &id) || id != next_id)))
        return 0;
    same = has_source(gatherer, slot_at(record, of_record[RECORD_EVENT]),
                      slot_at(batch, gatherer->batch_at[SOURCE]));
    if (same <= 0)
        return same;
    next_id = id + 1;
    return grow(gatherer, batch, record, count + 1, by_id ? &next_id : NULL);
}

/* The same for all records of a part: 0 if each of them has to be handled by itself. */
static int add_part(const Gatherer *gatherer, PyObject *batch, const Appended *appended,
                    const Part *part)
{
    const Record *records = appended->records + part->first;
    PyObject *source = slot_at(batch, gatherer->batch_at[SOURCE]), *last;
    int64_t count, next_id = 0;
    int by_id, outcome;
    if (part->source < 0 || source == NULL
        || !can_follow(gatherer, batch, part->number, &count, &by_id, &next_id)
        || (by_id && !part->by_id))
        return 0;
    for (Py_ssize_t i = 0; i < part->count; i++)
        if (slot_at(records[i].event, part->source) != source
            || (by_id && (records[i].key != next_id + i || records[i].key == INT64_MAX)))
            return 0;
    if ((last = stored_of(appended, part->first + part->count - 1)) == NULL)
        return -1;
    next_id += part->count;
    outcome = grow(gatherer, batch, last, count + part->count, by_id ? &next_id : NULL);
    Py_DECREF(last);
    return outcome;
}

static int gather(const void *self, PyObject *batches, PyObject *record)
{
    const Gatherer *gatherer = self;
    PyObject *stream, *batch;
    int outcome;
    if ((PyObject *)Py_TYPE(record) != gatherer->record_kind
        || (stream = slot_at(record, gatherer->record_at[RECORD_STREAM])) == NULL)
        return 0;
    if ((batch = PyDict_GetItemWithError(batches, stream)) == NULL)
        return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(batch);
    outcome = add(gatherer, batch, record);
    Py_DECREF(batch);
    return outcome;
}

/* Whether one of the records is a marker. */
static int has_marker(const Gatherer *gatherer, PyObject *records)
{
    for (Py_ssize_t i = 0, count = PyList_Size(records); i < count; i++) {
        PyObject *record = PyList_GetItem(records, i), *event;
        if ((PyObject *)Py_TYPE(record) != gatherer->record_kind)
            continue;
        event = slot_at(record, gatherer->record_at[RECORD_EVENT]);
        if (event != NULL && (PyObject *)Py_TYPE(event) == gatherer->marker)
            return 1;
    }
    return 0;
}

/* Gathers a part; 0, or -1 with an exception set. */
static int gather_part(const Gatherer *gatherer, const Appended *appended, const Part *part,
                       PyObject *batches, PyObject *otherwise)
{
    PyObject *batch = PyDict_GetItemWithError(batches, part->stream);
    int outcome = 0;
    if (batch != NULL) {
        Py_INCREF(batch);
        outcome = add_part(gatherer, batch, appended, part);
        Py_DECREF(batch);
    } else if (PyErr_Occurred())
        return -1;
    for (Py_ssize_t i = 0; outcome == 0 && i < part->count; i++) {
        PyObject *record = stored_of(appended, part->first + i);
        int done = record == NULL ? -1
                                  : handle_or_pass(gatherer, batches, record, otherwise, gather);
        Py_XDECREF(record);
        if (done < 0)
            return -1;
    }
    return outcome < 0 ? -1 : 0;
}

/* Prefetches the batches of parts. The keys of the dict are tuples of texts: looking one up
   runs no Python code. */
static void prefetch_batches(const Gatherer *gatherer, const Appended *appended, PyObject *batches)
{
    Py_ssize_t count = appended->parts_count, found = 0;
    PyObject **at = PyMem_Malloc((size_t)count * sizeof(PyObject *));
    for (Py_ssize_t p = 0; at != NULL && p < count; p++) {
        PyObject *stream = appended->parts[p].stream, *batch = NULL;
        if (PyTuple_Check(stream) && (batch = PyDict_GetItemWithError(batches, stream)) != NULL) {
            prefetch(batch, 2 * CACHE_LINE);
            at[found++] = batch;
        } else {
            PyErr_Clear(); /* `gather_part` looks it up, too */
        }
    }
    for (Py_ssize_t i = 0; i < found; i++)
        if ((PyObject *)Py_TYPE(at[i]) == gatherer->batch_kind)
            prefetch_fields(at[i], gatherer->batch_at, BATCH_FIELDS);
        else
            at[i] = NULL;
    for (Py_ssize_t i = 0; i < found; i++) {
        PyObject *last = at[i] == NULL ? NULL : slot_at(at[i], gatherer->batch_at[LAST]);
        if (last != NULL && (PyObject *)Py_TYPE(last) == gatherer->record_kind)
            prefetch_fields(last, gatherer->record_at, RECORD_FIELDS);
    }
    PyMem_Free(at);
}

PyDoc_STRVAR(gather_doc, "gather(records, batches, otherwise)\n--\n\n"
                         "Add each record to the batch of its stream, in this order; those that are"
                         " not the usual case are passed to ``otherwise``. False, and nothing is"
                         " added, if there is a marker among them.");

static PyObject *gatherer_gather(PyObject *self, PyObject *args)
{
    const Gatherer *gatherer = (Gatherer *)self;
    PyObject *given, *batches, *otherwise, *records;
    const Appended *appended;
    int marked = 0, failed = 0;
    if (!PyArg_ParseTuple(args, "OO!O", &given, &PyDict_Type, &batches, &otherwise))
        return NULL;
    appended = as_appended(given, PyType_GetModuleState(Py_TYPE(self)), gatherer->record_kind);
    if (appended != NULL) { /* among which there is no marker: those are left to Python */
        if (PyDict_Size(batches) >= MANY)
            prefetch_batches(gatherer, appended, batches);
        for (Py_ssize_t p = 0; !failed && p < appended->parts_count; p++)
            failed = gather_part(gatherer, appended, &appended->parts[p], batches, otherwise);
    } else {
        if ((records = PySequence_List(given)) == NULL) /* its own: Python code may run */
            return NULL;
        marked = has_marker(gatherer, records);
        if (!marked)
            failed = handle_list(gatherer, records, batches, otherwise, gather);
        Py_DECREF(records);
    }
    return failed ? NULL : Py_NewRef(marked ? Py_False : Py_True);
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
