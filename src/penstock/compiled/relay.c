/* Forwards the frames of a batch, see `publish/relay.py`: unpacks them, checks that each belongs to
   a stream, sends them through ZeroMQ, and keeps the last one of every stream.

   A batch is read to its end before anything is sent. One that is not MessagePack as publishers
   write it is left to the Python code, and so is the question whether the beginning of a frame that
   was not seen before is that of a stream. */

#include "hot.h"

#define PLACES 8192      /* of streams that are known; one that is taken is taken over */
#define NAME_BYTES 255   /* frames.py */
#define NUMBER_BYTES 8
#define MOST_FIRST 0x7f  /* of the first byte of a number */
#define ROOM_KEPT 4096   /* frames of a batch, for the next one */
#define DONTWAIT 1       /* ZMQ_DONTWAIT */

typedef int (*SendFunction)(void *socket, const void *data, size_t size, int flags);

typedef struct {
    PyObject *beginning; /* bytes */
    PyObject *stream;    /* what Python calls it */
    uint64_t batch;      /* the latest in which the last frame of the stream was found */
} Known;

typedef struct {
    Span frame;
    PyObject *stream; /* NULL if it is not that of a record */
    uint32_t place;
    int superseded; /* by a later one of the same stream */
} Found;

typedef struct {
    PyObject_HEAD
    void *socket;
    SendFunction send;
    Py_ssize_t large;    /* bytes from which Python sends a frame */
    PyObject *send_else; /* called with frames that were not sent here */
    PyObject *stream_of; /* called with a frame: its stream, or None */
    PyObject *last;      /* dict: the last frame of each stream, oldest first */
    Py_ssize_t most;     /* of `added`, of one frame */
    Py_ssize_t entry;    /* bytes that a frame in `last` takes besides its own */
    Py_ssize_t added;    /* bytes in `last` since the call began */
    Known *known;
    Found *found;
    Py_ssize_t room, count;
    uint64_t batch;
    int busy;
} Relay;

static void relay_free(PyObject *self)
{
    Relay *relay = (Relay *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    for (int i = 0; relay->known != NULL && i < PLACES; i++) {
        Py_XDECREF(relay->known[i].beginning);
        Py_XDECREF(relay->known[i].stream);
    }
    PyMem_Free(relay->known);
    PyMem_Free(relay->found);
    Py_XDECREF(relay->send_else);
    Py_XDECREF(relay->stream_of);
    Py_XDECREF(relay->last);
    release(self);
    Py_DECREF(type);
}

static PyObject *relay_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"socket", "send", "large", "send_else", "stream_of",
                            "last",   "most", "entry", NULL};
    unsigned long long socket, send;
    Py_ssize_t large, most, entry;
    PyObject *send_else, *stream_of, *last;
    Relay *relay;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "KKnOOO!nn", names, &socket, &send, &large,
                                     &send_else, &stream_of, &PyDict_Type, &last, &most, &entry)
        || (relay = (Relay *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0)) == NULL)
        return NULL;
    relay->socket = (void *)(uintptr_t)socket;
    relay->send = (SendFunction)(uintptr_t)send;
    relay->large = large;
    relay->send_else = Py_NewRef(send_else);
    relay->stream_of = Py_NewRef(stream_of);
    relay->last = Py_NewRef(last);
    relay->most = most;
    relay->entry = entry;
    if ((relay->known = PyMem_Calloc(PLACES, sizeof(Known))) == NULL) {
        Py_DECREF(relay);
        return PyErr_NoMemory();
    }
    return (PyObject *)relay;
}

static uint32_t big_endian(const unsigned char *at, int size)
{
    uint32_t value = 0;
    while (size-- > 0)
        value = value << 8 | *at++;
    return value;
}

/* Room for so many frames; 0, or -1 with an exception set. */
static int make_room(Relay *relay, Py_ssize_t count)
{
    Found *found;
    if (count <= relay->room)
        return 0;
    if ((found = PyMem_Realloc(relay->found, (size_t)count * sizeof(Found))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    relay->found = found;
    relay->room = count;
    return 0;
}

/* The frames in a MessagePack list of byte strings, which ends at `end`: 0 if it is one, 1 if not,
   -1 with an exception set. */
static int unpack(Relay *relay, const char *begin, const char *end)
{
    const unsigned char *at = (const unsigned char *)begin, *stop = (const unsigned char *)end;
    Py_ssize_t count;
    int width;
    if (at >= stop)
        return 1;
    width = *at == 0xdc ? 2 : *at == 0xdd ? 4 : 0;
    if ((!width && (*at & 0xf0) != 0x90) || stop - at < 1 + width)
        return 1;
    count = width ? (Py_ssize_t)big_endian(at + 1, width) : *at & 0x0f;
    at += 1 + width;
    if (count > (stop - at) / 2) /* an element has two bytes at least */
        return 1;
    if (make_room(relay, count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t size;
        if (at >= stop || *at < 0xc4 || *at > 0xc6)
            return 1;
        width = 1 << (*at - 0xc4);
        if (stop - at < 1 + width)
            return 1;
        size = (Py_ssize_t)big_endian(at + 1, width);
        at += 1 + width;
        if (stop - at < size)
            return 1;
        relay->found[i] = (Found){{(const char *)at, size}, NULL, 0, 0};
        at += size;
    }
    if (at != stop)
        return 1;
    relay->count = count;
    return 0;
}

/* How long the beginning of a frame is, that is the same in all of its stream; -1 if that is not to
   be seen. As `frames.number_place` has it. */
static Py_ssize_t beginning_of(Span frame)
{
    Py_ssize_t most = frame.size - 1 < NAME_BYTES ? frame.size - 1 : NAME_BYTES, size;
    const char *nul = most > 0 ? memchr(frame.at + 1, 0, (size_t)most) : NULL;
    if (nul == NULL || frame.at + frame.size - nul < 4)
        return -1;
    size = nul - frame.at + 4 + (unsigned char)nul[3];
    if (frame.size < size + NUMBER_BYTES || (unsigned char)frame.at[size] > MOST_FIRST)
        return -1;
    return size;
}

static Span span_of(PyObject *bytes) /* no error: it is bytes */
{
    return (Span){PyBytes_AsString(bytes), PyBytes_Size(bytes)};
}

/* Find out which stream a frame is of; 0, or -1 with an exception set. */
static int identify(Relay *relay, Found *found)
{
    Span beginning = {found->frame.at, beginning_of(found->frame)};
    PyObject *data, *stream, *bytes, *before, *stream_before;
    Known *known;
    if (beginning.size >= 0) {
        found->place = hash_of(beginning) % PLACES;
        known = &relay->known[found->place];
        if (known->beginning != NULL && same(span_of(known->beginning), beginning)) {
            found->stream = Py_NewRef(known->stream);
            return 0;
        }
    }
    if ((data = PyBytes_FromStringAndSize(found->frame.at, found->frame.size)) == NULL)
        return -1;
    stream = PyObject_CallFunctionObjArgs(relay->stream_of, data, NULL);
    Py_DECREF(data);
    if (stream == NULL)
        return -1;
    if (stream == Py_None || beginning.size < 0) {
        Py_DECREF(stream); /* without a number it is no record, whatever Python says */
        return 0;
    }
    found->stream = stream;
    if ((bytes = PyBytes_FromStringAndSize(beginning.at, beginning.size)) == NULL)
        return -1;
    known = &relay->known[found->place];
    before = known->beginning;
    stream_before = known->stream;
    *known = (Known){bytes, Py_NewRef(stream), 0};
    Py_XDECREF(before);
    Py_XDECREF(stream_before);
    return 0;
}

/* Only the last frame of a stream is kept: mark those before it. */
static void mark_superseded(Relay *relay)
{
    relay->batch++;
    for (Py_ssize_t i = relay->count - 1; i >= 0; i--) {
        Found *found = &relay->found[i];
        Known *known = &relay->known[found->place];
        /* If another stream has taken over the place, the frame is stored in vain, but in order. */
        if (found->stream == NULL || known->stream != found->stream)
            continue;
        found->superseded = known->batch == relay->batch;
        known->batch = relay->batch;
    }
}

/* Send a frame, or let Python send it; 0, or -1 with an exception set. */
static int send_frame(Relay *relay, Span frame)
{
    PyObject *data, *sent;
    if (frame.size < relay->large
        && relay->send(relay->socket, frame.at, (size_t)frame.size, DONTWAIT) >= 0)
        return 0;
    if ((data = PyBytes_FromStringAndSize(frame.at, frame.size)) == NULL)
        return -1;
    sent = PyObject_CallFunctionObjArgs(relay->send_else, data, NULL);
    Py_DECREF(data);
    Py_XDECREF(sent);
    return sent == NULL ? -1 : 0;
}

/* Keep a frame as the last of its stream, and the stream as the latest; as `Registry.passed`. */
static int keep(Relay *relay, Found *found)
{
    PyObject *before = PyDict_GetItemWithError(relay->last, found->stream), *data;
    Py_ssize_t size = found->frame.size + relay->entry, size_before;
    int failed;
    if (before != NULL) {
        if ((size_before = PyBytes_Size(before)) < 0
            || PyDict_DelItem(relay->last, found->stream) < 0)
            return -1;
        relay->added -= size_before + relay->entry;
    } else if (PyErr_Occurred()) {
        return -1;
    }
    if (size > relay->most)
        return 0;
    if ((data = PyBytes_FromStringAndSize(found->frame.at, found->frame.size)) == NULL)
        return -1;
    failed = PyDict_SetItem(relay->last, found->stream, data);
    Py_DECREF(data);
    if (!failed)
        relay->added += size;
    return failed;
}

static int forward_found(Relay *relay, Py_ssize_t *forwarded)
{
    for (Py_ssize_t i = 0; i < relay->count; i++)
        if (identify(relay, &relay->found[i]) < 0)
            return -1;
    mark_superseded(relay);
    /* One right after the other: ZeroMQ's thread, which the first one wakes, then finds them all. */
    for (Py_ssize_t i = 0; i < relay->count; i++)
        if (relay->found[i].stream != NULL) {
            if (send_frame(relay, relay->found[i].frame) < 0)
                return -1;
            ++*forwarded;
        }
    for (Py_ssize_t i = 0; i < relay->count; i++)
        if (relay->found[i].stream != NULL && !relay->found[i].superseded
            && keep(relay, &relay->found[i]) < 0)
            return -1;
    return 0;
}

static void forget_found(Relay *relay)
{
    for (Py_ssize_t i = 0; i < relay->count; i++)
        Py_CLEAR(relay->found[i].stream);
    relay->count = 0;
    if (relay->room > ROOM_KEPT) {
        PyMem_Free(relay->found);
        relay->found = NULL;
        relay->room = 0;
    }
}

PyDoc_STRVAR(forward_doc,
             "Forward the frames packed in data from a place on, or data itself if that is -1.\n\n"
             "Returns how many were forwarded, how many are no records, and by how many bytes\n"
             "those in ``last`` have grown; None if they are not packed as usual.");

static PyObject *relay_forward(PyObject *self, PyObject *args)
{
    Relay *relay = (Relay *)self;
    PyObject *data;
    Py_ssize_t place, forwarded = 0, count;
    int outcome;
    Span whole;
    if (!PyArg_ParseTuple(args, "Sn", &data, &place))
        return NULL;
    if (relay->busy) {
        PyErr_SetString(PyExc_RuntimeError, "a batch is being forwarded");
        return NULL;
    }
    whole = span_of(data);
    if (place < -1 || place > whole.size) {
        PyErr_SetString(PyExc_ValueError, "a place that is not in the data");
        return NULL;
    }
    if (place >= 0) {
        outcome = unpack(relay, whole.at + place, whole.at + whole.size);
    } else if ((outcome = make_room(relay, 1)) == 0) {
        relay->found[0] = (Found){whole, NULL, 0, 0};
        relay->count = 1;
    }
    count = relay->count;
    if (outcome == 0) {
        relay->added = 0;
        relay->busy = 1;
        outcome = forward_found(relay, &forwarded);
        relay->busy = 0;
    }
    forget_found(relay);
    if (outcome < 0)
        return NULL;
    if (outcome > 0)
        Py_RETURN_NONE;
    return Py_BuildValue("nnn", forwarded, count - forwarded, relay->added);
}

static PyMethodDef relay_methods[] = {
    {"forward", relay_forward, METH_VARARGS, forward_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot relay_slots[] = {
    {Py_tp_doc, "Forwards batches of frames through a socket of ZeroMQ."},
    {Py_tp_new, relay_new},
    {Py_tp_dealloc, relay_free},
    {Py_tp_methods, relay_methods},
    {0, NULL},
};

PyType_Spec relay_spec = {
    .name = "penstock.compiled._hot.Relay",
    .basicsize = sizeof(Relay),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = relay_slots,
};
