/* Handles many objects in one call, and leaves each one that is unusual to Python in its turn. */

#include "hot.h"

static int handle_or_pass(const void *self, PyObject *dict, PyObject *object, PyObject *otherwise,
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

PyObject *handle_each(const void *self, PyObject *args, HandleFunction handle)
{
    PyObject *given, *objects, *dict, *otherwise;
    int outcome = 1;
    if (!PyArg_ParseTuple(args, "OO!O", &given, &PyDict_Type, &dict, &otherwise)
        || (objects = PySequence_List(given)) == NULL) /* its own: Python code may run */
        return NULL;
    for (Py_ssize_t i = 0, count = PyList_Size(objects); i < count && outcome > 0; i++)
        outcome = handle_or_pass(self, dict, PyList_GetItem(objects, i), otherwise, handle);
    Py_DECREF(objects);
    return outcome < 0 ? NULL : Py_NewRef(Py_None);
}
