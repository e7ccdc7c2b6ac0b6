/* Takes plain frames of a WebSocket out of the bytes that arrive, see `collect/plain_frames.py`.

   Plain is what exchanges send all the time: a whole message in a frame of its own, text or binary,
   not masked, without extensions, its length in as few bytes as possible. The first frame that is
   anything else is handed on with all that follows it; then nothing is kept here. */

#include "hot.h"

#define TEXT 0x81   /* with FIN, and without the reserved bits */
#define BINARY 0x82
#define TWO_BYTES 126 /* in place of a length: it is in the next two bytes, */
#define EIGHT_BYTES 127 /* or in the next eight */
#define LONGEST_HEAD 10

typedef struct {
    PyObject_HEAD
    PyObject *bytes;     /* a bytearray; it is replaced, never resized: somebody may look at it */
    PyObject *view;      /* of all of it */
    Py_ssize_t room;     /* its size, */
    Py_ssize_t usual;    /* its size unless there is a larger frame, */
    Py_ssize_t used;     /* and the bytes in it of a frame that is not complete */
    Py_ssize_t largest;  /* payload of a frame */
    PyObject *frames;    /* a list: the payloads that nobody has taken yet, */
    PyObject *stamps;    /* and a list with the time of arrival of each, */
    PyObject *now;       /* by this clock, */
    int64_t anchor;      /* plus this */
    int64_t last;        /* what the clock said at the last read, without it */
    Py_ssize_t many;     /* so many payloads are to be taken at once */
    PyObject *arrived;   /* called with their number when there are some, and when there are many */
    PyObject *hand_on;   /* called with bytes that are no plain frame, and all that follows */
} PlainFrames;

typedef enum { PLAIN, INCOMPLETE, OTHER } Kind;

static int frames_visit(PyObject *self, visitproc visit, void *arg)
{
    PlainFrames *frames = (PlainFrames *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(frames->frames);
    Py_VISIT(frames->stamps);
    Py_VISIT(frames->now);
    Py_VISIT(frames->arrived);
    Py_VISIT(frames->hand_on);
    return 0;
}

static int frames_clear(PyObject *self)
{
    PlainFrames *frames = (PlainFrames *)self;
    Py_CLEAR(frames->frames);
    Py_CLEAR(frames->stamps);
    Py_CLEAR(frames->now);
    Py_CLEAR(frames->arrived);
    Py_CLEAR(frames->hand_on);
    return 0;
}

static void frames_free(PyObject *self)
{
    PlainFrames *frames = (PlainFrames *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    frames_clear(self);
    Py_CLEAR(frames->view);
    Py_CLEAR(frames->bytes);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Makes room for so many bytes, and copies those that are used from a place. */
static int move_to(PlainFrames *frames, Py_ssize_t room, const char *from)
{
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, room);
    PyObject *view = bytes == NULL ? NULL : PyMemoryView_FromObject(bytes), *before = frames->view;
    if (view == NULL) {
        Py_XDECREF(bytes);
        return -1;
    }
    if (frames->used)
        memcpy(PyByteArray_AsString(bytes), from, (size_t)frames->used);
    frames->view = view;
    Py_XDECREF(before);
    before = frames->bytes;
    frames->bytes = bytes;
    Py_XDECREF(before);
    frames->room = room;
    return 0;
}

static PyObject *frames_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"room", "largest", "frames", "stamps_ns", "now_ns", "anchor_ns",
                            "many", "arrived", "hand_on", NULL};
    PyObject *waiting, *stamps, *now, *arrived, *hand_on;
    Py_ssize_t room, largest, many;
    long long anchor;
    PlainFrames *frames;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nnO!O!OLnOO", names, &room, &largest,
                                     &PyList_Type, &waiting, &PyList_Type, &stamps, &now, &anchor,
                                     &many, &arrived, &hand_on))
        return NULL;
    if (room < LONGEST_HEAD || largest < 0 || largest > PY_SSIZE_T_MAX - LONGEST_HEAD) {
        PyErr_SetString(PyExc_ValueError, "too small or too large");
        return NULL;
    }
    frames = (PlainFrames *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (frames == NULL)
        return NULL;
    frames->usual = room;
    frames->largest = largest;
    frames->frames = Py_NewRef(waiting);
    frames->stamps = Py_NewRef(stamps);
    frames->now = Py_NewRef(now);
    frames->anchor = anchor;
    frames->many = many;
    frames->arrived = Py_NewRef(arrived);
    frames->hand_on = Py_NewRef(hand_on);
    if (move_to(frames, room, NULL) < 0) {
        Py_DECREF(frames);
        return NULL;
    }
    return (PyObject *)frames;
}

static uint64_t number_at(const unsigned char *at, int size)
{
    uint64_t number = 0;
    while (size-- > 0)
        number = number << 8 | *at++;
    return number;
}

/* What the next frame is, and the size of its head and of its payload as far as they are known. */
static Kind look_at(const unsigned char *at, Py_ssize_t left, Py_ssize_t largest, Py_ssize_t *head,
                    Py_ssize_t *payload)
{
    uint64_t size;
    *head = 2;
    *payload = 0;
    if (left < 1)
        return INCOMPLETE;
    if (*at != TEXT && *at != BINARY)
        return OTHER;
    if (left < 2)
        return INCOMPLETE;
    if ((size = at[1]) > EIGHT_BYTES)
        return OTHER; /* masked */
    if (size >= TWO_BYTES) {
        int bytes = size == TWO_BYTES ? 2 : 8;
        *head += bytes;
        if (left < *head)
            return INCOMPLETE;
        size = number_at(at + 2, bytes);
        if (size < (bytes == 2 ? (uint64_t)TWO_BYTES : 1 << 16))
            return OTHER; /* not as short as it could be */
    }
    if (size > (uint64_t)largest)
        return OTHER;
    *payload = (Py_ssize_t)size;
    return left - *head < *payload ? INCOMPLETE : PLAIN;
}

PyDoc_STRVAR(buffer_doc, "Where the next bytes belong; see asyncio.BufferedProtocol.");

static PyObject *frames_buffer(PyObject *self, PyObject *Py_UNUSED(hint))
{
    PlainFrames *frames = (PlainFrames *)self;
    /* Mostly nothing is left of the read before; a new view costs as much as a frame. */
    return frames->used ? PySequence_GetSlice(frames->view, frames->used, frames->room)
                        : Py_NewRef(frames->view);
}

/* Appends the payloads of plain frames up to the first other one; returns the bytes that they
   take, or -1 with an exception set. */
static Py_ssize_t take_plain(PlainFrames *frames, const unsigned char *at, Py_ssize_t size,
                             Kind *next)
{
    Py_ssize_t place = 0, head, payload;
    while ((*next = look_at(at + place, size - place, frames->largest, &head, &payload)) == PLAIN) {
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)at + place + head, payload);
        int failed = bytes == NULL ? -1 : PyList_Append(frames->frames, bytes);
        Py_XDECREF(bytes);
        if (failed)
            return -1;
        place += head + payload;
    }
    return place;
}

/* Keeps the beginning of a frame at the beginning of the bytes, with room for more of it. */
static int keep(PlainFrames *frames, const char *from, Py_ssize_t size)
{
    char *bytes = PyByteArray_AsString(frames->bytes);
    frames->used = size;
    if (size > frames->room - frames->room / 8)
        return move_to(frames, 2 * frames->room, from);
    if (frames->room > frames->usual && size < frames->usual / 2)
        return move_to(frames, frames->usual, from);
    if (size && from != bytes)
        memmove(bytes, from, (size_t)size);
    return 0;
}

/* Stamps the payloads of one read with the current time, a nanosecond apart; 0, or -1 with an
   exception set. */
static int stamp(PlainFrames *frames, Py_ssize_t count)
{
    PyObject *now = PyObject_CallNoArgs(frames->now);
    int is_whole = now != NULL && whole_of(now, &frames->last);
    Py_XDECREF(now);
    if (!is_whole) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a time is an int of 64 bits");
        return -1;
    }
    for (Py_ssize_t i = 0, missing = count - PyList_Size(frames->stamps); i < missing; i++) {
        PyObject *at = PyLong_FromLongLong(frames->anchor + frames->last + i);
        int failed = at == NULL ? -1 : PyList_Append(frames->stamps, at);
        Py_XDECREF(at);
        if (failed)
            return -1;
    }
    return 0;
}

/* Stamps what has arrived, and tells so: once until it is taken, and once more if it is much. */
static PyObject *tell(PlainFrames *frames, Py_ssize_t before)
{
    Py_ssize_t count = PyList_Size(frames->frames);
    PyObject *of_count, *answer;
    if (count == before)
        Py_RETURN_NONE;
    if (stamp(frames, count) < 0)
        return NULL;
    if (before && (before >= frames->many || count < frames->many))
        Py_RETURN_NONE;
    if ((of_count = PyLong_FromSsize_t(count)) == NULL)
        return NULL;
    answer = PyObject_CallFunctionObjArgs(frames->arrived, of_count, NULL);
    Py_DECREF(of_count);
    return answer;
}

PyDoc_STRVAR(updated_doc, "So many bytes have arrived; see asyncio.BufferedProtocol.");

static PyObject *frames_updated(PyObject *self, PyObject *count)
{
    PlainFrames *frames = (PlainFrames *)self;
    const char *bytes = PyByteArray_AsString(frames->bytes);
    Py_ssize_t size = PyLong_AsSsize_t(count), before = PyList_Size(frames->frames), taken;
    PyObject *rest, *answer = NULL;
    Kind next;
    if (size < 0 || size > frames->room - frames->used) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "so many bytes have no room");
        return NULL;
    }
    size += frames->used;
    taken = take_plain(frames, (const unsigned char *)bytes, size, &next);
    /* What is kept is settled first: those that are called may do anything. */
    if (taken >= 0 && next == OTHER) {
        rest = PyBytes_FromStringAndSize(bytes + taken, size - taken);
        if (rest != NULL && keep(frames, bytes, 0) == 0)
            answer = PyObject_CallFunctionObjArgs(frames->hand_on, rest, NULL);
        Py_XDECREF(rest);
    } else if (taken >= 0 && keep(frames, bytes + taken, size - taken) == 0)
        answer = tell(frames, before);
    return answer;
}

static PyObject *frames_last(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((PlainFrames *)self)->last);
}

static PyGetSetDef frames_getters[] = {
    {"last_ns", frames_last, NULL, "What the clock said at the last read; 0 before it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef frames_methods[] = {
    {"get_buffer", frames_buffer, METH_O, buffer_doc},
    {"buffer_updated", frames_updated, METH_O, updated_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot frames_slots[] = {
    {Py_tp_doc, "Takes plain frames out of the bytes of a WebSocket."},
    {Py_tp_new, frames_new},
    {Py_tp_dealloc, frames_free},
    {Py_tp_traverse, frames_visit},
    {Py_tp_clear, frames_clear},
    {Py_tp_methods, frames_methods},
    {Py_tp_getset, frames_getters},
    {0, NULL},
};

PyType_Spec frames_spec = {
    .name = "penstock.compiled._hot.PlainFrames",
    .basicsize = sizeof(PlainFrames),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = frames_slots,
};
