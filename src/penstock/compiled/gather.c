/* Gathers records by stream: the counterpart of `GrowingBatch.add` for the usual case.

   That is a record which follows the last one of its stream: the next number, the same source, and
   the next id or none. Every other record is handed to Python, in its turn and before anything has
   changed. */

#include "appended.h"

#define FIRST_NOT_ID 0xFE /* keys that begin so are no plain ids */

enum { RECORD_STREAM, RECORD_NUMBER, RECORD_KEY, RECORD_EVENT, RECORD_FIELDS };
enum { SOURCE, LAST, NEXT_NUMBER, NEXT_ID, RANGES, BATCH_FIELDS };

/* The batch that a stream had last. It may have been taken: then no record fits. */
typedef struct {
    PyObject *stream, *batch;
} Place;

typedef struct {
    PyObject_HEAD
    PyObject *record_kind, *batch_kind;
    PyObject *source; /* the name of that field */
    PyObject *marker; /* the class of events before which everything else has to be passed on */
    Py_ssize_t record_at[RECORD_FIELDS], batch_at[BATCH_FIELDS];
    PyObject *batches;     /* the dict that the places are of */
    Place *places;         /* by the index of the stream: a dict needs several waits for memory */
    Py_ssize_t room;
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
static int can_follow(const Gatherer *gatherer, PyObject *batch, int64_t number, int *by_id,
                      int64_t *next_id)
{
    const Py_ssize_t *of_batch = gatherer->batch_at;
    PyObject *ranges;
    int64_t next;
    if ((PyObject *)Py_TYPE(batch) != gatherer->batch_kind
        || !whole_of(slot_at(batch, of_batch[NEXT_NUMBER]), &next)
        || number != next || number == INT64_MAX
        || (ranges = slot_at(batch, of_batch[RANGES])) == NULL)
        return 0;
    *by_id = ranges != Py_None;
    return !*by_id || whole_of(slot_at(batch, of_batch[NEXT_ID]), next_id);
}

/* Lets a batch grow up to this event; 1, or -1 with an exception set. */
static int grow(const Gatherer *gatherer, PyObject *batch, PyObject *last, int64_t next_number,
                const int64_t *next_id)
{
    const Py_ssize_t *of_batch = gatherer->batch_at;
    PyObject *number = PyLong_FromLongLong(next_number);
    PyObject *next = next_id == NULL ? NULL : PyLong_FromLongLong(*next_id);
    if (number == NULL || (next_id != NULL && next == NULL)) {
        Py_XDECREF(number);
        Py_XDECREF(next);
        return -1;
    }
    if (next != NULL)
        set_slot(batch, of_batch[NEXT_ID], next);
    set_slot(batch, of_batch[NEXT_NUMBER], number);
    set_slot(batch, of_batch[LAST], Py_NewRef(last));
    return 1;
}

/* Whether a batch grew by a record: 1, 0 if Python has to see to it, -1 with an exception set. */
static int add(const Gatherer *gatherer, PyObject *batch, PyObject *record)
{
    const Py_ssize_t *of_record = gatherer->record_at;
    PyObject *event = slot_at(record, of_record[RECORD_EVENT]);
    int64_t number, id = 0, next_id = 0;
    int by_id, same;
    if (!whole_of(slot_at(record, of_record[RECORD_NUMBER]), &number)
        || !can_follow(gatherer, batch, number, &by_id, &next_id)
        || (by_id && (!id_of(slot_at(record, of_record[RECORD_KEY]), &id) || id != next_id)))
        return 0;
    same = has_source(gatherer, event, slot_at(batch, gatherer->batch_at[SOURCE]));
    if (same <= 0)
        return same;
    next_id = id + 1;
    return grow(gatherer, batch, event, number + 1, by_id ? &next_id : NULL);
}

/* The same for all records of a part: 0 if each of them has to be handled by itself. */
static int add_part(const Gatherer *gatherer, PyObject *batch, const Appended *appended,
                    const Part *part)
{
    const Record *records = appended->records + part->first;
    PyObject *source = slot_at(batch, gatherer->batch_at[SOURCE]);
    int64_t next_id = 0;
    int by_id;
    if (part->encoder->source < 0 || source == NULL
        || !can_follow(gatherer, batch, part->number, &by_id, &next_id)
        || (by_id && !part->by_id))
        return 0;
    for (Py_ssize_t i = 0; i < part->count; i++)
        if (slot_at(records[i].event, part->encoder->source) != source
            || (by_id && (records[i].key != next_id + i || records[i].key == INT64_MAX)))
            return 0;
    next_id += part->count;
    return grow(gatherer, batch, records[part->count - 1].event, part->number + part->count,
                by_id ? &next_id : NULL);
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

/* ---- places ---- */

static void forget_places(Gatherer *gatherer)
{
    Place *places = gatherer->places;
    Py_ssize_t room = gatherer->room;
    gatherer->places = NULL;
    gatherer->room = 0;
    for (Py_ssize_t i = 0; i < room; i++) {
        Py_XDECREF(places[i].stream);
        Py_XDECREF(places[i].batch);
    }
    PyMem_Free(places);
}

/* Has a place for every part, in this dict: 0, or -1 with an exception set. */
static int find_places(Gatherer *gatherer, const Appended *appended, PyObject *batches)
{
    Py_ssize_t needed = 0, room = gatherer->room ? gatherer->room : 16;
    Place *places;
    if (gatherer->batches != batches) {
        PyObject *before = gatherer->batches;
        forget_places(gatherer);
        gatherer->batches = Py_NewRef(batches);
        Py_XDECREF(before);
    }
    for (Py_ssize_t p = 0; p < appended->parts_count; p++)
        if (appended->parts[p].index >= needed)
            needed = appended->parts[p].index + 1;
    if (needed <= gatherer->room)
        return 0;
    while (room < needed)
        room *= 2;
    if ((places = PyMem_Realloc(gatherer->places, (size_t)room * sizeof(Place))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(places + gatherer->room, 0, (size_t)(room - gatherer->room) * sizeof(Place));
    gatherer->places = places;
    gatherer->room = room;
    return 0;
}

/* The batch that the stream of a part had last; NULL if none is known. */
static PyObject *batch_before(const Gatherer *gatherer, const Part *part)
{
    const Place *place = &gatherer->places[part->index];
    return place->stream == part->stream ? place->batch : NULL;
}

static void note_batch(Gatherer *gatherer, const Part *part, PyObject *batch)
{
    Place *place = &gatherer->places[part->index], before = *place;
    *place = (Place){Py_NewRef(part->stream), Py_NewRef(batch)};
    Py_XDECREF(before.stream);
    Py_XDECREF(before.batch);
}

/* Whether the batch of a part grew by it; 0 if each record has to be handled by itself, -1 with an
   exception set. */
static int grow_by_part(Gatherer *gatherer, const Appended *appended, const Part *part,
                        PyObject *batches)
{
    PyObject *before = batch_before(gatherer, part), *batch;
    int outcome = before == NULL ? 0 : add_part(gatherer, before, appended, part);
    if (outcome != 0)
        return outcome;
    if ((batch = PyDict_GetItemWithError(batches, part->stream)) == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (batch == before)
        return 0;
    note_batch(gatherer, part, batch);
    return add_part(gatherer, batch, appended, part);
}

/* Gathers a part; 0, or -1 with an exception set. */
static int gather_part(Gatherer *gatherer, const Appended *appended, const Part *part,
                       PyObject *batches, PyObject *otherwise)
{
    int outcome = grow_by_part(gatherer, appended, part, batches);
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

/* Prefetches the batches of parts, and the events that they will release. */
static void prefetch_batches(const Gatherer *gatherer, const Appended *appended)
{
    Py_ssize_t count = appended->parts_count;
    const Part *parts = appended->parts;
    for (Py_ssize_t p = 0; p < count; p++)
        __builtin_prefetch(&gatherer->places[parts[p].index]);
    for (Py_ssize_t p = 0; p < count; p++) {
        PyObject *batch = batch_before(gatherer, &parts[p]);
        if (batch != NULL)
            prefetch(batch, 2 * CACHE_LINE);
    }
    for (Py_ssize_t p = 0; p < count; p++) {
        PyObject *batch = batch_before(gatherer, &parts[p]);
        if (batch != NULL && (PyObject *)Py_TYPE(batch) == gatherer->batch_kind)
            prefetch_fields(batch, gatherer->batch_at, BATCH_FIELDS);
    }
    for (Py_ssize_t p = 0; p < count; p++) {
        const Encoder *encoder = parts[p].encoder;
        PyObject *batch = batch_before(gatherer, &parts[p]), *last = NULL;
        if (batch != NULL && (PyObject *)Py_TYPE(batch) == gatherer->batch_kind)
            last = slot_at(batch, gatherer->batch_at[LAST]);
        if (last != NULL && (PyObject *)Py_TYPE(last) == encoder->kind)
            prefetch_fields(last, encoder->offsets, encoder->count);
    }
}

PyDoc_STRVAR(gather_doc, "gather(records, batches, otherwise)\n--\n\n"
                         "Add each record to the batch of its stream, in this order; those that are"
                         " not the usual case are passed to ``otherwise``. False, and nothing is"
                         " added, if there is a marker among them.");

static PyObject *gatherer_gather(PyObject *self, PyObject *args)
{
    Gatherer *gatherer = (Gatherer *)self;
    PyObject *given, *batches, *otherwise, *records;
    const Appended *appended;
    int marked = 0, failed = 0;
    if (!PyArg_ParseTuple(args, "OO!O", &given, &PyDict_Type, &batches, &otherwise))
        return NULL;
    appended = as_appended(given, PyType_GetModuleState(Py_TYPE(self)), gatherer->record_kind);
    if (appended != NULL) { /* among which there is no marker: those are left to Python */
        failed = find_places(gatherer, appended, batches);
        if (!failed && appended->parts_count && PyDict_Size(batches) >= MANY)
            prefetch_batches(gatherer, appended);
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
    Py_XDECREF(gatherer->batches);
    forget_places(gatherer);
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
