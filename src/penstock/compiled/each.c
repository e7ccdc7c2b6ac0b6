/* Handles many objects in one call, and leaves each one that is unusual to Python in its turn. */

#include "hot.h"

int handle_or_pass(const void *self, PyObject *dict, PyObject *object, PyObject *otherwise,
                   HandleFunction handle)
{
    int outcome = handle(self, dict, object);
    PyObject *done;
    if (outcome != 0)
        return outcome;
    done = PyObject_CallFunctionObjArgs(otherwise, object, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 1;
}

int handle_list(const void *self, PyObject *objects, PyObject *dict, PyObject *otherwise,
                HandleFunction handle)
{
    int outcome = 1;
    for (Py_ssize_t i = 0, count = PyList_Size(objects); i < count && outcome > 0; i++)
        outcome = handle_or_pass(self, dict, PyList_GetItem(objects, i), otherwise, handle);
    return outcome < 0 ? -1 : 0;
}
