/* Encodes events as records: what `codec.encode` returns for them, by a plan made in Python.

   A plan has the names of the fields in msgspec's order. What a value is written as follows from its
   type; one of a type, or with characters, that are unusual here is left to msgspec. */

#include "hot.h"

#define SOURCE_NAME ",\"source\":" /* as a plan spells it */
#define LONGEST_WHOLE 20 /* characters of 64 bits, with a sign */

enum { ENCODED = 1, UNUSUAL = 0, FAILED = -1 };

/* Room for so many more bytes; NULL without memory. */
static char *reserve(Output *into, Py_ssize_t more)
{
    if (into->room - into->size < more) {
        Py_ssize_t room = into->room ? into->room : 4096;
        char *grown;
        while (room - into->size < more) {
            if (room > PY_SSIZE_T_MAX / 2)
                return NULL;
            room *= 2;
        }
        if ((grown = PyMem_Realloc(into->bytes, (size_t)room)) == NULL)
            return NULL;
        into->bytes = grown;
        into->room = room;
    }
    return into->bytes + into->size;
}

int write_bytes(Output *into, const char *from, Py_ssize_t size)
{
    char *at = reserve(into, size);
    if (at == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    memcpy(at, from, (size_t)size);
    into->size += size;
    return ENCODED;
}

static int write_whole(Output *into, int64_t value)
{
    char digits[LONGEST_WHOLE], *at = digits + LONGEST_WHOLE;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        *--at = '-';
    return write_bytes(into, at, digits + LONGEST_WHOLE - at);
}

/* A text in quotes; one with characters that JSON escapes is unusual. */
static int write_text(Output *into, PyObject *text)
{
    Py_ssize_t size;
    const char *from = PyUnicode_AsUTF8AndSize(text, &size);
    char *at;
    if (from == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeError))
            return FAILED;
        PyErr_Clear(); /* a lone surrogate */
        return UNUSUAL;
    }
    if ((at = reserve(into, size + 2)) == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    *at++ = '"';
    for (Py_ssize_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)from[i];
        if (c < 0x20 || c == '"' || c == '\\')
            return UNUSUAL;
        at[i] = (char)c;
    }
    at[size] = '"';
    into->size += size + 2;
    return ENCODED;
}

static int write_raw(Output *into, PyObject *raw)
{
    Py_buffer view;
    int outcome;
    if (PyObject_GetBuffer(raw, &view, PyBUF_SIMPLE) < 0)
        return FAILED;
    outcome = write_bytes(into, view.buf, view.len);
    PyBuffer_Release(&view);
    return outcome;
}

static int write_value(const Encoder *encoder, Output *into, PyObject *value)
{
    int64_t whole;
    if (PyUnicode_CheckExact(value))
        return write_text(into, value);
    if (PyLong_CheckExact(value))
        return whole_of(value, &whole) ? write_whole(into, whole) : UNUSUAL;
    if ((PyObject *)Py_TYPE(value) == encoder->raw)
        return write_raw(into, value);
    if (value == Py_None)
        return write_bytes(into, "null", 4);
    if (value == Py_True)
        return write_bytes(into, "true", 4);
    return value == Py_False ? write_bytes(into, "false", 5) : UNUSUAL;
}

int write_record(const Encoder *encoder, Output *into, Span beginning, int64_t received_at_ns,
                 PyObject *event)
{
    int outcome = write_bytes(into, beginning.at, beginning.size);
    if (outcome == ENCODED)
        outcome = write_whole(into, received_at_ns);
    for (Py_ssize_t i = 0; i < encoder->count && outcome == ENCODED; i++) {
        PyObject *value = slot_at(event, encoder->offsets[i]);
        if (value == NULL)
            return UNUSUAL;
        if (value == encoder->omitted[i])
            continue;
        outcome = write_bytes(into, encoder->names[i].at, encoder->names[i].size);
        if (outcome == ENCODED)
            outcome = write_value(encoder, into, value);
    }
    return outcome == ENCODED ? write_bytes(into, "}", 1) : outcome;
}

PyDoc_STRVAR(encode_doc, "encode(beginning, event)\n--\n\n"
                         "The record of an event; None if it is to be made by msgspec.");

static PyObject *encoder_encode(PyObject *self, PyObject *args)
{
    const Encoder *encoder = (Encoder *)self;
    PyObject *beginning, *event, *record = NULL;
    Output made = {NULL, 0, 0};
    int64_t received_at_ns;
    int outcome = UNUSUAL;
    if (!PyArg_ParseTuple(args, "SO", &beginning, &event))
        return NULL;
    if ((PyObject *)Py_TYPE(event) == encoder->kind
        && whole_of(slot_at(event, encoder->received), &received_at_ns))
        outcome = write_record(encoder, &made,
                               (Span){PyBytes_AsString(beginning), PyBytes_Size(beginning)},
                               received_at_ns, event);
    if (outcome == ENCODED)
        record = PyBytes_FromStringAndSize(made.bytes, made.size);
    else if (outcome == UNUSUAL)
        record = Py_NewRef(Py_None);
    PyMem_Free(made.bytes);
    return record;
}

/* ---- the plan ---- */

static void encoder_free(PyObject *self)
{
    Encoder *encoder = (Encoder *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(encoder->kind);
    Py_XDECREF(encoder->raw);
    Py_XDECREF(encoder->plan);
    release(self);
    Py_DECREF(type);
}

/* `((b',"price":', (default, …)), …)`, where a field without a default has no object in it. */
static int read_plan(Encoder *encoder)
{
    for (Py_ssize_t i = 0; i < encoder->count; i++) {
        PyObject *defaults;
        Span *name = &encoder->names[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(encoder->plan, i), "y#O!", &name->at, &name->size,
                              &PyTuple_Type, &defaults))
            return -1;
        if (PyTuple_Size(defaults) > 0)
            encoder->omitted[i] = PyTuple_GetItem(defaults, 0);
        if (same(*name, (Span){SOURCE_NAME, sizeof(SOURCE_NAME) - 1}))
            encoder->source = encoder->offsets[i];
    }
    return 0;
}

static int fill_encoder(Encoder *encoder, PyObject *event, PyObject *common, PyObject *own)
{
    Py_ssize_t offsets[4], count;
    if ((count = find_offsets(event, common, 4, offsets)) < 0)
        return -1;
    if ((encoder->count = find_offsets(event, own, MOST_FIELDS, encoder->offsets)) < 0) {
        encoder->count = 0;
        return -1;
    }
    if (count < 3 || PyTuple_Size(encoder->plan) != encoder->count) {
        PyErr_SetString(PyExc_ValueError, "an event has too few fields");
        return -1;
    }
    encoder->exchange = offsets[0];
    encoder->symbol = offsets[1];
    encoder->received = offsets[2];
    encoder->id = count > 3 ? offsets[3] : -1;
    encoder->source = -1;
    for (Py_ssize_t i = 0; i < encoder->count; i++)
        if (!PyTuple_Check(PyTuple_GetItem(encoder->plan, i))) {
            PyErr_SetString(PyExc_TypeError, "a field is a tuple");
            return -1;
        }
    return read_plan(encoder);
}

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"event", "common", "own", "plan", NULL};
    State *state = PyType_GetModuleState(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *event, *common, *own, *plan;
    Encoder *encoder;
    if (state == NULL
        || !PyArg_ParseTupleAndKeywords(args, keywords, "OO!O!O!", names, &event, &PyTuple_Type,
                                        &common, &PyTuple_Type, &own, &PyTuple_Type, &plan)
        || (encoder = (Encoder *)allocate(type, 0)) == NULL)
        return NULL;
    encoder->kind = Py_NewRef((PyObject *)Py_TYPE(event));
    encoder->raw = Py_NewRef(state->raw);
    encoder->plan = Py_NewRef(plan);
    if (fill_encoder(encoder, event, common, own) < 0) {
        Py_DECREF(encoder);
        return NULL;
    }
    return (PyObject *)encoder;
}

static PyMethodDef encoder_methods[] = {
    {"encode", encoder_encode, METH_VARARGS, encode_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot encoder_slots[] = {
    {Py_tp_doc, "Encodes the events of one class as records."},
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_free},
    {Py_tp_methods, encoder_methods},
    {0, NULL},
};

PyType_Spec encoder_spec = {
    .name = "penstock.compiled._hot.Encoder",
    .basicsize = sizeof(Encoder),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = encoder_slots,
};
