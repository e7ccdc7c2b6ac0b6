/* Fields of objects, read and written where they are: through their descriptors each would take a
   call. */

#include "hot.h"

/* Where an object has a field: where its descriptor puts another one. */
static Py_ssize_t find_offset(PyObject *sample, Py_ssize_t size, PyObject *descriptor)
{
    descrsetfunc set = (descrsetfunc)PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_set);
    PyObject *mark = PyList_New(0);
    Py_ssize_t found = -1, count = 0, at = sizeof(PyObject);
    if (mark != NULL && set != NULL && set(descriptor, sample, mark) == 0)
        for (; at + (Py_ssize_t)sizeof(mark) <= size; at += sizeof(mark))
            if (!memcmp((char *)sample + at, &mark, sizeof(mark)))
                found = at, count++;
    Py_XDECREF(mark);
    if (count != 1 && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a field is not a slot");
    return count == 1 ? found : -1;
}

Py_ssize_t find_offsets(PyObject *sample, PyObject *descriptors, Py_ssize_t most,
                        Py_ssize_t *offsets)
{
    PyObject *basic = PyObject_GetAttrString((PyObject *)Py_TYPE(sample), "__basicsize__");
    Py_ssize_t size = basic == NULL ? -1 : PyLong_AsSsize_t(basic);
    Py_ssize_t count = size < 0 ? -1 : PyTuple_Size(descriptors);
    Py_XDECREF(basic);
    if (count > most) {
        PyErr_SetString(PyExc_ValueError, "an object has too many fields");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if ((offsets[i] = find_offset(sample, size, PyTuple_GetItem(descriptors, i))) < 0)
            return -1;
    return count;
}

PyObject *probe(PyObject *sample, PyObject *descriptors, Py_ssize_t count, Py_ssize_t *offsets)
{
    Py_ssize_t found = find_offsets(sample, descriptors, count, offsets);
    if (found >= 0 && found < count)
        PyErr_SetString(PyExc_ValueError, "an object has too few fields");
    return found < count ? NULL : Py_NewRef((PyObject *)Py_TYPE(sample));
}

int whole_of(PyObject *value, int64_t *into)
{
    int overflow = 0;
    if (value == NULL || !PyLong_CheckExact(value))
        return 0;
    *into = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}
