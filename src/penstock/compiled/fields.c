/* Fields of events as numbers: descriptors that do in C what the properties in `events` do. */

#include "hot.h"

typedef struct {
    PyObject_HEAD
    PyObject *module; /* keeps the state */
    State *state;
    PyObject *name;      /* of the field that has the text */
    PyObject *otherwise; /* of levels: reads those in an unusual spelling */
    int repeats;         /* whether many of them come again: prices, and levels of whole books */
} Field;

static Field *new_field(PyTypeObject *type, PyObject *name)
{
    State *state = PyType_GetModuleState(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Field *field = state == NULL ? NULL : (Field *)allocate(type, 0);
    if (field == NULL)
        return NULL;
    field->module = Py_XNewRef(PyType_GetModule(type));
    field->state = state;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    field->name = name;
    return field;
}

static void field_free(PyObject *self)
{
    Field *field = (Field *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(field->module);
    Py_XDECREF(field->name);
    Py_XDECREF(field->otherwise);
    release(self);
    Py_DECREF(type);
}

static PyObject *number_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "repeats", NULL};
    PyObject *name;
    Field *field;
    int repeats;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Up", names, &name, &repeats)
        || (field = new_field(type, name)) == NULL)
        return NULL;
    field->repeats = repeats;
    return (PyObject *)field;
}

static PyObject *number_get(PyObject *self, PyObject *event, PyObject *owner)
{
    Field *field = (Field *)self;
    PyObject *text, *value;
    (void)owner;
    if (event == NULL)
        return Py_NewRef(self);
    if ((text = PyObject_GetAttr(event, field->name)) == NULL || text == Py_None)
        return text;
    value = number_of(field->state, text, field->repeats);
    Py_DECREF(text);
    return value;
}

static PyObject *levels_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "otherwise", "repeats", NULL};
    PyObject *name, *otherwise;
    Field *field;
    int repeats;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "UOp", names, &name, &otherwise, &repeats)
        || (field = new_field(type, name)) == NULL)
        return NULL;
    field->otherwise = Py_NewRef(otherwise);
    field->repeats = repeats;
    return (PyObject *)field;
}

static PyObject *levels_get(PyObject *self, PyObject *event, PyObject *owner)
{
    Field *field = (Field *)self;
    PyObject *raw, *levels;
    (void)owner;
    if (event == NULL)
        return Py_NewRef(self);
    if ((raw = PyObject_GetAttr(event, field->name)) == NULL)
        return NULL;
    levels = levels_of(field->state, raw, field->repeats);
    if (levels == Py_None) {
        Py_DECREF(levels);
        levels = PyObject_CallFunctionObjArgs(field->otherwise, raw, NULL);
    }
    Py_DECREF(raw);
    return levels;
}

static PyType_Slot number_slots[] = {
    {Py_tp_doc, "The number that a field has as text; None if it has none."},
    {Py_tp_new, number_new},
    {Py_tp_dealloc, field_free},
    {Py_tp_descr_get, number_get},
    {0, NULL},
};

PyType_Spec number_spec = {
    .name = "penstock.compiled._hot.Number",
    .basicsize = sizeof(Field),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = number_slots,
};

static PyType_Slot levels_slots[] = {
    {Py_tp_doc, "The levels that a field has undecoded, as pairs of Decimal."},
    {Py_tp_new, levels_new},
    {Py_tp_dealloc, field_free},
    {Py_tp_descr_get, levels_get},
    {0, NULL},
};

PyType_Spec levels_spec = {
    .name = "penstock.compiled._hot.Levels",
    .basicsize = sizeof(Field),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = levels_slots,
};
