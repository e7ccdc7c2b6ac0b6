/* Packs records into the batches that a publisher sends, see `publish/zeromq.py`.

   All records of a call are packed or, before anything has changed, none: where one is of another
   class, has an unusual value, has a topic without a beginning, or makes a frame that is too large,
   the Python code does the whole call. No Python code is called from here. */

#include "appended.h"

#define NUMBER_BYTES 8
#define PACKED_BYTES 5 /* the most that a frame, or a batch, takes besides its own; as zeromq.py */

/* The fields of a message, in the order in which Python names them. */
enum { OF_MESSAGE_TOPIC, OF_MESSAGE_NUMBER, OF_MESSAGE_RECORD, MESSAGE_FIELDS };

typedef struct {
    PyObject_HEAD
    PyObject *kind; /* the class of the messages */
    Py_ssize_t at[MESSAGE_FIELDS];
    PyObject *beginnings, *numbers; /* dicts, by topic */
    PyObject *batch_beginning;      /* bytes */
    Py_ssize_t most, most_in_batch; /* bytes of a message, and of the packed frames of a batch */
} Packer;

/* A frame that is to be written. */
typedef struct {
    Span beginning, payload;
    uint64_t number;
    Py_ssize_t size;
} Planned;

static void packer_free(PyObject *self)
{
    Packer *packer = (Packer *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(packer->kind);
    Py_XDECREF(packer->beginnings);
    Py_XDECREF(packer->numbers);
    Py_XDECREF(packer->batch_beginning);
    release(self);
    Py_DECREF(type);
}

static PyObject *packer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"sample", "fields", "beginnings", "numbers", "batch_beginning",
                            "most",   "most_in_batch", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *sample, *fields, *beginnings, *numbers, *batch_beginning;
    Py_ssize_t most, most_in_batch;
    Packer *packer;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!O!O!Snn", names, &sample, &PyTuple_Type,
                                     &fields, &PyDict_Type, &beginnings, &PyDict_Type, &numbers,
                                     &batch_beginning, &most, &most_in_batch)
        || (packer = (Packer *)allocate(type, 0)) == NULL)
        return NULL;
    packer->beginnings = Py_NewRef(beginnings);
    packer->numbers = Py_NewRef(numbers);
    packer->batch_beginning = Py_NewRef(batch_beginning);
    packer->most = most;
    packer->most_in_batch = most_in_batch;
    if ((packer->kind = probe(sample, fields, MESSAGE_FIELDS, packer->at)) == NULL) {
        Py_DECREF(packer);
        return NULL;
    }
    return (PyObject *)packer;
}

/* The beginning of the frames of a topic: 1, 0 if that is left to Python, or -1 with an exception
   set. */
static int beginning_of(const Packer *packer, PyObject *topic, Span *found)
{
    PyObject *beginning;
    if (topic == NULL || !PyUnicode_CheckExact(topic))
        return 0;
    if ((beginning = PyDict_GetItemWithError(packer->beginnings, topic)) == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (!PyBytes_CheckExact(beginning))
        return 0;
    *found = (Span){PyBytes_AsString(beginning), PyBytes_Size(beginning)};
    return 1;
}

/* How a record becomes a frame: 1, or 0 if that is left to Python. */
static int plan_frame(const Packer *packer, Planned *frame, Span beginning, int64_t number,
                      Span record)
{
    frame->beginning = beginning;
    frame->payload = record;
    if (frame->payload.size) { /* without the version of the record */
        frame->payload.at++;
        frame->payload.size--;
    }
    frame->number = (uint64_t)number;
    if (frame->payload.size > packer->most - frame->beginning.size - NUMBER_BYTES)
        return 0;
    frame->size = frame->beginning.size + NUMBER_BYTES + frame->payload.size;
    return frame->size <= UINT32_MAX; /* msgspec refuses to pack a larger one */
}

static PyObject *topic_of(const Packer *packer, PyObject *messages, Py_ssize_t i)
{
    return slot_at(PyList_GetItem(messages, i), packer->at[OF_MESSAGE_TOPIC]);
}

/* How a message becomes a frame: 1, 0 if that is left to Python, or -1 with an exception set. */
static int plan(const Packer *packer, PyObject *message, Planned *frame)
{
    PyObject *record;
    int64_t number;
    Span beginning;
    int outcome;
    if ((PyObject *)Py_TYPE(message) != packer->kind
        || !whole_of(slot_at(message, packer->at[OF_MESSAGE_NUMBER]), &number) || number < 0
        || (record = slot_at(message, packer->at[OF_MESSAGE_RECORD])) == NULL
        || !PyBytes_CheckExact(record))
        return 0;
    outcome = beginning_of(packer, slot_at(message, packer->at[OF_MESSAGE_TOPIC]), &beginning);
    if (outcome <= 0)
        return outcome;
    return plan_frame(packer, frame, beginning, number,
                      (Span){PyBytes_AsString(record), PyBytes_Size(record)});
}

static int plan_list(const Packer *packer, PyObject *messages, Planned *frames)
{
    int outcome = 1;
    for (Py_ssize_t i = 0, count = PyList_Size(messages); i < count && outcome > 0; i++)
        outcome = plan(packer, PyList_GetItem(messages, i), &frames[i]);
    return outcome;
}

/* The same for records that were just appended, of which no Stored is made. */
static int plan_appended(const Packer *packer, const Appended *appended, Planned *frames)
{
    for (Py_ssize_t p = 0; p < appended->parts_count; p++) {
        const Part *part = &appended->parts[p];
        Span beginning;
        int outcome = beginning_of(packer, part->topic, &beginning);
        for (Py_ssize_t i = 0; i < part->count && outcome > 0; i++)
            outcome = plan_frame(packer, &frames[part->first + i], beginning, part->number + i,
                                 record_of(appended, part->first + i));
        if (outcome <= 0)
            return outcome;
    }
    return 1;
}

/* Notes the last number of each topic; 0, or -1 with an exception set. */
static int note_numbers(const Packer *packer, PyObject *messages)
{
    for (Py_ssize_t i = 0, count = PyList_Size(messages); i < count; i++) {
        PyObject *message = PyList_GetItem(messages, i), *topic = topic_of(packer, messages, i);
        /* Records of one stream mostly follow each other, and share its topic. */
        if (i + 1 < count && topic_of(packer, messages, i + 1) == topic)
            continue;
        if (PyDict_SetItem(packer->numbers, topic,
                           slot_at(message, packer->at[OF_MESSAGE_NUMBER])) < 0)
            return -1;
    }
    return 0;
}

static int note_appended(const Packer *packer, const Appended *appended)
{
    for (Py_ssize_t p = 0; p < appended->parts_count; p++) {
        const Part *part = &appended->parts[p];
        PyObject *number = PyLong_FromLongLong(part->number + part->count - 1);
        int failed = number == NULL ? -1 : PyDict_SetItem(packer->numbers, part->topic, number);
        Py_XDECREF(number);
        if (failed)
            return -1;
    }
    return 0;
}

static char *put(char *into, Span bytes)
{
    memcpy(into, bytes.at, (size_t)bytes.size);
    return into + bytes.size;
}

static char *put_number(char *into, uint64_t number, int width)
{
    for (int i = width - 1; i >= 0; i--, number >>= 8)
        into[i] = (char)(number & 0xFF);
    return into + width;
}

static char *put_frame(char *into, const Planned *frame)
{
    into = put(into, frame->beginning);
    into = put_number(into, frame->number, NUMBER_BYTES);
    return put(into, frame->payload);
}

/* How many bytes MessagePack takes to write the length of a byte string, and of a list. */
static int width_of_size(Py_ssize_t size) { return size < 0x100 ? 1 : size < 0x10000 ? 2 : 4; }
static int width_of_count(Py_ssize_t count) { return count < 0x10 ? 0 : count < 0x10000 ? 2 : 4; }

/* The message of so many frames: one alone, or a batch. */
static PyObject *message_of(const Packer *packer, const Planned *frames, Py_ssize_t count)
{
    Span begins = {PyBytes_AsString(packer->batch_beginning),
                   PyBytes_Size(packer->batch_beginning)};
    int width = width_of_count(count);
    Py_ssize_t size = begins.size + NUMBER_BYTES + 1 + width;
    PyObject *message;
    char *into;
    if (count == 1) {
        if ((message = PyBytes_FromStringAndSize(NULL, frames->size)) != NULL)
            put_frame(PyBytes_AsString(message), frames);
        return message;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        size += 1 + width_of_size(frames[i].size) + frames[i].size;
    if ((message = PyBytes_FromStringAndSize(NULL, size)) == NULL)
        return NULL;
    into = put_number(put(PyBytes_AsString(message), begins), (uint64_t)count, NUMBER_BYTES);
    *into++ = (char)(!width ? 0x90 | count : width == 2 ? 0xdc : 0xdd);
    into = put_number(into, (uint64_t)count, width);
    for (Py_ssize_t i = 0; i < count; i++) {
        width = width_of_size(frames[i].size);
        *into++ = (char)(width == 1 ? 0xc4 : width == 2 ? 0xc5 : 0xc6);
        into = put_frame(put_number(into, (uint64_t)frames[i].size, width), &frames[i]);
    }
    return message;
}

/* Adds (message, count) to a list; 0, or -1 with an exception set. */
static int add_message(PyObject *into, PyObject *message, Py_ssize_t count)
{
    PyObject *of_count = PyLong_FromSsize_t(count), *pair = NULL;
    int failed = -1;
    if (message != NULL && of_count != NULL
        && (pair = PyTuple_Pack(2, message, of_count)) != NULL)
        failed = PyList_Append(into, pair);
    Py_XDECREF(message);
    Py_XDECREF(of_count);
    Py_XDECREF(pair);
    return failed;
}

/* How many of the frames are sent together: those that fit, one at least. */
static Py_ssize_t together(const Packer *packer, const Planned *frames, Py_ssize_t count)
{
    Py_ssize_t size = frames->size + PACKED_BYTES, found = 1;
    while (found < count
           && (size += frames[found].size + PACKED_BYTES) <= packer->most_in_batch)
        found++;
    return found;
}

/* The messages to send for so many frames. */
static PyObject *pack(const Packer *packer, const Planned *frames, Py_ssize_t count)
{
    PyObject *packed = PyList_New(0);
    for (Py_ssize_t first = 0, next; packed != NULL && first < count; first = next) {
        next = first + together(packer, frames + first, count - first);
        if (add_message(packed, message_of(packer, frames + first, next - first), next - first) < 0)
            Py_CLEAR(packed);
    }
    return packed;
}

PyDoc_STRVAR(pack_doc, "pack(messages)\n--\n\n"
                       "Note the last number of each topic, and make the messages to send, each"
                       " with the\nnumber of its records. None if that is left to Python.");

static PyObject *packer_pack(PyObject *self, PyObject *given)
{
    const Packer *packer = (Packer *)self;
    const State *state = PyType_GetModuleState(Py_TYPE(self));
    Appended *appended = as_appended(given, state, packer->kind);
    PyObject *messages = appended == NULL ? PySequence_List(given) : NULL, *packed = NULL;
    Py_ssize_t count = appended != NULL ? appended->count : messages ? PyList_Size(messages) : 0;
    Planned *frames = PyMem_Malloc((size_t)count * sizeof(Planned));
    int outcome = -1;
    if (frames == NULL)
        PyErr_NoMemory();
    else if (appended != NULL)
        outcome = plan_appended(packer, appended, frames);
    else if (messages != NULL)
        outcome = plan_list(packer, messages, frames);
    if (outcome > 0 && (appended != NULL ? note_appended(packer, appended)
                                         : note_numbers(packer, messages)) == 0)
        packed = pack(packer, frames, count);
    else if (outcome == 0)
        packed = Py_NewRef(Py_None);
    PyMem_Free(frames);
    Py_XDECREF(messages);
    return packed;
}

static PyMethodDef packer_methods[] = {
    {"pack", packer_pack, METH_O, pack_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot packer_slots[] = {
    {Py_tp_doc, "Packs records into the batches of a publisher."},
    {Py_tp_new, packer_new},
    {Py_tp_dealloc, packer_free},
    {Py_tp_methods, packer_methods},
    {0, NULL},
};

PyType_Spec packer_spec = {
    .name = "penstock.compiled._hot.Packer",
    .basicsize = sizeof(Packer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = packer_slots,
};
