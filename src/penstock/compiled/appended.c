/* Records that were appended, as a sequence of Stored.

   A collector appends, publishes and gathers a batch, and mostly nobody looks at its records one by
   one. So a Stored, its key and its record are made only for whoever asks for them. */

#include "appended.h"

#define MOST_KEPT (1 << 20) /* bytes of values that the next append may use again */

Appended *new_appended(Appender *appender, PyObject *slot, Py_ssize_t parts, Py_ssize_t records)
{
    State *state = PyType_GetModuleState(Py_TYPE((PyObject *)appender));
    PyTypeObject *type = state == NULL ? NULL : (PyTypeObject *)state->appended;
    Appended *made;
    if (type == NULL
        || (made = (Appended *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0)) == NULL)
        return NULL;
    made->appender = (Appender *)Py_NewRef((PyObject *)appender);
    made->slot = Py_NewRef(slot);
    made->parts = PyMem_Malloc((size_t)parts * sizeof(Part));
    made->records = PyMem_Malloc((size_t)records * sizeof(Record));
    if (made->parts == NULL || made->records == NULL) {
        PyErr_NoMemory();
        Py_DECREF((PyObject *)made);
        return NULL;
    }
    made->values = appender->output;
    made->values.size = 0;
    appender->output = (Output){NULL, 0, 0};
    return made;
}

static void appended_free(PyObject *self)
{
    Appended *appended = (Appended *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < appended->parts_count; i++) {
        Py_DECREF(appended->parts[i].stream);
        Py_DECREF(appended->parts[i].topic);
    }
    for (Py_ssize_t i = 0; i < appended->count; i++)
        Py_DECREF(appended->records[i].event);
    PyMem_Free(appended->parts);
    PyMem_Free(appended->records);
    if (appended->appender->output.bytes == NULL && appended->values.room <= MOST_KEPT)
        appended->appender->output = appended->values;
    else
        PyMem_Free(appended->values.bytes);
    Py_DECREF((PyObject *)appended->appender);
    Py_DECREF(appended->slot);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *stored_of(const Appended *appended, Py_ssize_t index)
{
    const Appender *appender = appended->appender;
    const Record *record = &appended->records[index];
    const Part *part = &appended->parts[record->part];
    char bytes[ARRIVAL_BYTES], *end = write_key(bytes, record->key, part->by_id);
    Span encoded = record_of(appended, index);
    PyObject *key = PyBytes_FromStringAndSize(bytes, end - bytes);
    PyObject *number = PyLong_FromLongLong(part->number + index - part->first);
    PyObject *whole = PyBytes_FromStringAndSize(encoded.at, encoded.size), *stored = NULL;
    if (key != NULL && number != NULL && whole != NULL)
        stored = PyObject_CallFunctionObjArgs(appender->copy, appender->stored, NULL);
    if (stored != NULL) {
        PyObject *fields[] = {part->stream, appended->slot, number, key, whole, part->topic,
                              record->event};
        for (int i = 0; i < STORED_FIELDS; i++)
            set_slot(stored, appender->stored_at[i], Py_NewRef(fields[i]));
    }
    Py_XDECREF(key);
    Py_XDECREF(number);
    Py_XDECREF(whole);
    return stored;
}

Appended *as_appended(PyObject *records, const State *state, PyObject *kind)
{
    Appended *found = (Appended *)records;
    return (PyObject *)Py_TYPE(records) == state->appended
                   && (PyObject *)Py_TYPE(found->appender->stored) == kind
               ? found
               : NULL;
}

/* ---- the type ---- */

static Py_ssize_t appended_length(PyObject *self) { return ((Appended *)self)->count; }

static PyObject *appended_item(PyObject *self, Py_ssize_t index)
{
    if (index < 0 || index >= ((Appended *)self)->count) {
        PyErr_SetString(PyExc_IndexError, "there are not so many records");
        return NULL;
    }
    return stored_of((Appended *)self, index);
}

static PyObject *appended_part(PyObject *self, PyObject *index)
{
    Py_ssize_t at;
    PyObject *all, *found;
    if (!PySlice_Check(index)) {
        if ((at = PyNumber_AsSsize_t(index, PyExc_IndexError)) == -1 && PyErr_Occurred())
            return NULL;
        return appended_item(self, at < 0 ? at + ((Appended *)self)->count : at);
    }
    if ((all = PySequence_List(self)) == NULL)
        return NULL;
    found = PyObject_GetItem(all, index);
    Py_DECREF(all);
    return found;
}

/* Equal to a list of equal records. */
static PyObject *appended_compare(PyObject *self, PyObject *other, int operation)
{
    PyObject *mine, *found;
    if (!PyList_Check(other) && Py_TYPE(other) != Py_TYPE(self))
        Py_RETURN_NOTIMPLEMENTED;
    mine = PySequence_List(self);
    other = PySequence_List(other);
    found = mine == NULL || other == NULL ? NULL : PyObject_RichCompare(mine, other, operation);
    Py_XDECREF(mine);
    Py_XDECREF(other);
    return found;
}

static PyType_Slot appended_slots[] = {
    {Py_tp_doc, "Records that were appended, as a sequence; each is made when it is asked for."},
    {Py_tp_dealloc, appended_free},
    {Py_tp_richcompare, appended_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_sq_length, appended_length},
    {Py_sq_item, appended_item},
    {Py_mp_length, appended_length},
    {Py_mp_subscript, appended_part},
    {0, NULL},
};

PyType_Spec appended_spec = {
    .name = "penstock.compiled._hot.Appended",
    .basicsize = sizeof(Appended),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = appended_slots,
};
