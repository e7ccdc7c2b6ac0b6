/* The streams whose events are appended by the compiled code: a table that Python fills. */

#include "append.h"

static Encoder *encoder_for(const Appender *appender, PyObject *event)
{
    for (Py_ssize_t i = 0; i < appender->kinds; i++)
        if (appender->encoders[i]->kind == (PyObject *)Py_TYPE(event))
            return appender->encoders[i];
    return NULL;
}

static uint64_t hash_of_stream(const Encoder *encoder, PyObject *symbol, PyObject *exchange)
{
    uint64_t hash = (uint64_t)PyObject_Hash(exchange); /* of a str: never fails */
    hash = (hash ^ (uint64_t)(uintptr_t)symbol) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ (hash >> 29) ^ (uint64_t)(uintptr_t)encoder) * 0x9E3779B97F4A7C15u;
    return hash >> 32;
}

/* Where a stream is, or where it would be. */
static Known *place_of(Known *known, Py_ssize_t places, const Encoder *encoder, PyObject *symbol,
                       PyObject *exchange, uint64_t hash)
{
    Py_ssize_t mask = places - 1, i = (Py_ssize_t)hash & mask;
    for (;; i = (i + 1) & mask) {
        const Known *at = &known[i];
        if (at->encoder == NULL)
            break;
        if (at->hash == hash && at->encoder == encoder && at->symbol == symbol
            && (at->exchange == exchange || !PyUnicode_Compare(at->exchange, exchange)))
            break;
    }
    return &known[i];
}

/* What identifies the stream of an event; 0 if that is not known. */
static int identify(const Appender *appender, PyObject *event, Known *stream)
{
    Encoder *encoder = encoder_for(appender, event);
    if (encoder == NULL || !appender->taken)
        return 0;
    stream->encoder = encoder;
    stream->symbol = slot_at(event, encoder->symbol);
    stream->exchange = slot_at(event, encoder->exchange);
    if (stream->symbol == NULL || stream->exchange == NULL
        || !PyUnicode_CheckExact(stream->exchange))
        return 0;
    stream->hash = hash_of_stream(encoder, stream->symbol, stream->exchange);
    return 1;
}

Known *known_stream(const Appender *appender, PyObject *event)
{
    Known stream, *found;
    if (!identify(appender, event, &stream))
        return NULL;
    found = place_of(appender->known, appender->places, stream.encoder, stream.symbol,
                     stream.exchange, stream.hash);
    return found->encoder == NULL ? NULL : found;
}

void prefetch_stream(const Appender *appender, PyObject *event)
{
    Known stream;
    if (identify(appender, event, &stream))
        prefetch(&appender->known[(Py_ssize_t)stream.hash & (appender->places - 1)], sizeof(Known));
}

static void forget(Known *known)
{
    Py_XDECREF((PyObject *)known->encoder);
    Py_XDECREF(known->symbol);
    Py_XDECREF(known->exchange);
    Py_XDECREF(known->head);
    Py_XDECREF(known->beginning);
}

static void forget_all(Appender *appender)
{
    Known *known = appender->known;
    Py_ssize_t places = appender->places;
    appender->known = NULL;
    appender->places = appender->taken = 0;
    for (Py_ssize_t i = 0; i < places; i++)
        if (known[i].encoder != NULL)
            forget(&known[i]);
    PyMem_Free(known);
}

/* Room for one more; 0 if there is no memory. */
static int reserve_stream(Appender *appender)
{
    Py_ssize_t places = appender->places ? appender->places * 2 : 64;
    Known *grown;
    if (appender->taken * 2 < appender->places)
        return 1;
    if ((grown = PyMem_Calloc((size_t)places, sizeof(Known))) == NULL)
        return 0;
    for (Py_ssize_t i = 0; i < appender->places; i++) {
        const Known *each = &appender->known[i];
        if (each->encoder != NULL)
            *place_of(grown, places, each->encoder, each->symbol, each->exchange, each->hash)
                = *each;
    }
    PyMem_Free(appender->known);
    appender->known = grown;
    appender->places = places;
    return 1;
}

static int is_busy(const Appender *appender)
{
    if (appender->busy)
        PyErr_SetString(PyExc_RuntimeError, "an append is in progress");
    return appender->busy;
}

static int keep_encoder(Appender *appender, Encoder *encoder)
{
    for (Py_ssize_t i = 0; i < appender->kinds; i++)
        if (appender->encoders[i] == encoder)
            return 1;
    if (appender->kinds == MOST_KINDS)
        return 0;
    appender->encoders[appender->kinds++] = (Encoder *)Py_NewRef((PyObject *)encoder);
    return 1;
}

PyDoc_STRVAR(learn_doc, "learn(event, head, encoder, beginning)\n--\n\n"
                        "Append events of this stream from now on. ``beginning`` is that of its"
                        " records, up to the time of receipt.");

static PyObject *appender_learn(PyObject *self, PyObject *args)
{
    Appender *appender = (Appender *)self;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *event, *head, *given, *beginning, *symbol, *exchange;
    Encoder *encoder;
    Known *place, before;
    uint64_t hash;
    if (state == NULL || is_busy(appender)
        || !PyArg_ParseTuple(args, "OOO!S", &event, &head, (PyTypeObject *)state->encoder, &given,
                             &beginning))
        return NULL;
    encoder = (Encoder *)given;
    if (encoder->kind != (PyObject *)Py_TYPE(event)
        || appender->head_kind != (PyObject *)Py_TYPE(head)) {
        PyErr_SetString(PyExc_TypeError, "an event or a head is of another class");
        return NULL;
    }
    symbol = slot_at(event, encoder->symbol);
    exchange = slot_at(event, encoder->exchange);
    if (symbol == NULL || exchange == NULL || !PyUnicode_CheckExact(exchange)
        || !keep_encoder(appender, encoder))
        Py_RETURN_NONE;
    if (!reserve_stream(appender))
        return PyErr_NoMemory();
    hash = hash_of_stream(encoder, symbol, exchange);
    place = place_of(appender->known, appender->places, encoder, symbol, exchange, hash);
    before = *place;
    *place = (Known){(Encoder *)Py_NewRef(given), Py_NewRef(symbol), Py_NewRef(exchange),
                     Py_NewRef(head), Py_NewRef(beginning), hash, 0, 0, before.index};
    if (before.encoder == NULL)
        place->index = appender->taken++;
    forget(&before);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(clear_doc, "clear()\n--\n\nForget all streams.");

static PyObject *appender_clear_all(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    if (is_busy((Appender *)self))
        return NULL;
    forget_all((Appender *)self);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static int appender_visit(PyObject *self, visitproc visit, void *arg)
{
    Appender *appender = (Appender *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(appender->stored);
    Py_VISIT(appender->copy);
    Py_VISIT(appender->head_kind);
    for (Py_ssize_t i = 0; i < appender->places; i++)
        if (appender->known[i].encoder != NULL) {
            Py_VISIT(appender->known[i].symbol);
            Py_VISIT(appender->known[i].exchange);
            Py_VISIT(appender->known[i].head);
            Py_VISIT(appender->known[i].beginning);
        }
    return 0;
}

static int appender_clear(PyObject *self)
{
    Appender *appender = (Appender *)self;
    Py_CLEAR(appender->stored);
    Py_CLEAR(appender->copy);
    Py_CLEAR(appender->head_kind);
    Py_CLEAR(appender->begin_batch);
    forget_all(appender);
    while (appender->kinds)
        Py_DECREF((PyObject *)appender->encoders[--appender->kinds]);
    return 0;
}

static void appender_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    appender_clear(self);
    PyMem_Free(((Appender *)self)->output.bytes);
    release(self);
    Py_DECREF(type);
}

/* Finds the fields of Stored and of heads; spoils the head. */
static int fill_appender(Appender *appender, PyObject *stored_fields, PyObject *head,
                         PyObject *head_fields)
{
    PyObject *sample;
    Py_ssize_t count;
    if ((appender->copy = PyObject_GetAttrString((PyObject *)Py_TYPE(appender->stored), "__copy__"))
            == NULL
        || (appender->begin_batch = PyUnicode_InternFromString("begin_batch")) == NULL
        || (sample = PyObject_CallFunctionObjArgs(appender->copy, appender->stored, NULL)) == NULL)
        return -1;
    count = find_offsets(sample, stored_fields, STORED_FIELDS, appender->stored_at);
    Py_DECREF(sample);
    if (count < 0)
        return -1;
    if (count == STORED_FIELDS) {
        count = find_offsets(head, head_fields, HEAD_FIELDS, appender->head_at);
        if (count < 0 || count == HEAD_FIELDS)
            return count < 0 ? -1 : 0;
    }
    PyErr_SetString(PyExc_ValueError, "a record or a head has too few fields");
    return -1;
}

static PyObject *appender_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stored", "stored_fields", "head", "head_fields",
                             "most_in_batch", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *stored, *stored_fields, *head, *head_fields;
    Py_ssize_t most_in_batch;
    Appender *appender;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!OO!n", names, &stored, &PyTuple_Type,
                                     &stored_fields, &head, &PyTuple_Type, &head_fields,
                                     &most_in_batch)
        || (appender = (Appender *)allocate(type, 0)) == NULL)
        return NULL;
    appender->most_in_batch = most_in_batch;
    appender->stored = Py_NewRef(stored);
    appender->head_kind = Py_NewRef((PyObject *)Py_TYPE(head));
    if (fill_appender(appender, stored_fields, head, head_fields) < 0) {
        Py_DECREF(appender);
        return NULL;
    }
    return (PyObject *)appender;
}

static PyMethodDef appender_methods[] = {
    {"learn", appender_learn, METH_VARARGS, learn_doc},
    {"clear", appender_clear_all, METH_NOARGS, clear_doc},
    {"add", appender_add, METH_VARARGS, add_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot appender_slots[] = {
    {Py_tp_doc, "Appends events whose keys rise."},
    {Py_tp_new, appender_new},
    {Py_tp_dealloc, appender_free},
    {Py_tp_traverse, appender_visit},
    {Py_tp_clear, appender_clear},
    {Py_tp_methods, appender_methods},
    {0, NULL},
};

PyType_Spec appender_spec = {
    .name = "penstock.compiled._hot.Appender",
    .basicsize = sizeof(Appender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = appender_slots,
};
