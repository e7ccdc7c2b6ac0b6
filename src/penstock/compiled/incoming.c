/* Receives from a socket of ZeroMQ without waiting, see `publish/readiness.py`. An empty socket
   costs pyzmq an exception, and the question whether it is empty an enumeration. */

#include "hot.h"

#include <errno.h>

#define DONTWAIT 1 /* ZMQ_DONTWAIT */
#define EVENTS 15  /* ZMQ_EVENTS */
#define READABLE 1 /* ZMQ_POLLIN */

typedef struct {
    _Alignas(void *) unsigned char opaque[64];
} Message; /* zmq_msg_t */

typedef struct {
    PyObject_HEAD
    void *socket;
    int (*init)(Message *message);
    int (*receive)(Message *message, void *socket, int flags);
    void *(*data)(Message *message);
    size_t (*size)(const Message *message);
    int (*close)(Message *message);
    int (*option)(void *socket, int option, void *value, size_t *size);
} Incoming;

static void incoming_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *incoming_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"socket", "zmq_msg_init", "zmq_msg_recv", "zmq_msg_data",
                            "zmq_msg_size", "zmq_msg_close", "zmq_getsockopt", NULL};
    unsigned long long socket, init, receive, data, size, close, option;
    Incoming *incoming;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "KKKKKKK", names, &socket, &init, &receive,
                                     &data, &size, &close, &option)
        || (incoming = (Incoming *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0)) == NULL)
        return NULL;
    incoming->socket = (void *)(uintptr_t)socket;
    incoming->init = (int (*)(Message *))(uintptr_t)init;
    incoming->receive = (int (*)(Message *, void *, int))(uintptr_t)receive;
    incoming->data = (void *(*)(Message *))(uintptr_t)data;
    incoming->size = (size_t(*)(const Message *))(uintptr_t)size;
    incoming->close = (int (*)(Message *))(uintptr_t)close;
    incoming->option = (int (*)(void *, int, void *, size_t *))(uintptr_t)option;
    return (PyObject *)incoming;
}

/* The next message in a list; its size, -1 if there is none, -2 with an exception set. */
static Py_ssize_t take_one(Incoming *incoming, PyObject *into, int *why)
{
    Message message;
    Py_ssize_t size;
    PyObject *data;
    incoming->init(&message);
    while (incoming->receive(&message, incoming->socket, DONTWAIT) < 0) {
        if (errno == EINTR)
            continue; /* not empty: nobody would come back for what is there */
        *why = errno;
        incoming->close(&message);
        return -1;
    }
    size = (Py_ssize_t)incoming->size(&message);
    data = PyBytes_FromStringAndSize(incoming->data(&message), size);
    incoming->close(&message);
    if (data == NULL || PyList_Append(into, data) < 0)
        size = -2;
    Py_XDECREF(data);
    return size;
}

PyDoc_STRVAR(take_doc,
             "Up to so many messages, and no more once they have so many bytes; fewer once there\n"
             "are no more. None if nothing but an error was received: pyzmq raises it.");

static PyObject *incoming_take(PyObject *self, PyObject *args)
{
    Py_ssize_t most, most_bytes, size = 0;
    PyObject *taken;
    int why = EAGAIN;
    if (!PyArg_ParseTuple(args, "nn", &most, &most_bytes) || (taken = PyList_New(0)) == NULL)
        return NULL;
    for (; most > 0 && most_bytes > 0 && size >= 0; most--, most_bytes -= size)
        if ((size = take_one((Incoming *)self, taken, &why)) < 0)
            break;
    if (size != -2 && (why == EAGAIN || PyList_Size(taken) > 0))
        return taken;
    Py_DECREF(taken);
    if (size == -2)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(waits_doc, "Whether a message waits; None if that is not to be had: pyzmq raises why.");

static PyObject *incoming_waits(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    Incoming *incoming = (Incoming *)self;
    int events = 0;
    size_t size = sizeof events;
    if (incoming->option(incoming->socket, EVENTS, &events, &size) < 0)
        Py_RETURN_NONE;
    return PyBool_FromLong(events & READABLE);
}

static PyMethodDef incoming_methods[] = {
    {"take", incoming_take, METH_VARARGS, take_doc},
    {"waits", incoming_waits, METH_NOARGS, waits_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot incoming_slots[] = {
    {Py_tp_doc, "Receives from a socket of ZeroMQ."},
    {Py_tp_new, incoming_new},
    {Py_tp_dealloc, incoming_free},
    {Py_tp_methods, incoming_methods},
    {0, NULL},
};

PyType_Spec incoming_spec = {
    .name = "penstock.compiled._hot.Incoming",
    .basicsize = sizeof(Incoming),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = incoming_slots,
};
