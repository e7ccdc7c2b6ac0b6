/* The extension `penstock.compiled._hot`: see docs/decisions/0021-a-compiled-hot-path.md.

   Every function either does exactly what its counterpart in Python does or says that the input is
   not in the usual spelling; then the Python code decides. */

#include "hot.h"

PyObject *text_of(Span span) { return PyUnicode_FromStringAndSize(span.at, span.size); }

static PyObject *converted(PyObject *convert, Span span)
{
    PyObject *text = text_of(span), *value;
    if (text == NULL || convert == NULL)
        return text;
    value = PyObject_CallFunctionObjArgs(convert, text, NULL);
    Py_DECREF(text);
    return value;
}

PyObject *level_of(PyObject *convert, Span price, Span quantity)
{
    PyObject *first = converted(convert, price), *second, *level;
    if (first == NULL)
        return NULL;
    second = converted(convert, quantity);
    if (second == NULL) {
        Py_DECREF(first);
        return NULL;
    }
    level = PyTuple_Pack(2, first, second);
    Py_DECREF(first);
    Py_DECREF(second);
    return level;
}

int walk_pairs(const char *at, Py_ssize_t size, PairFunction each, void *context)
{
    const char *end = at + size;
    Span price, quantity;
    if (size < 2 || *at != '[' || end[-1] != ']')
        return 1;
    if (size == 2)
        return 0;
    for (;;) {
        int outcome;
        if ((at = scan_pair(at + 1, end, &price, &quantity)) == NULL)
            return 1;
        if ((outcome = each(context, price, quantity)) != 0)
            return outcome;
        if (at == end - 1)
            return 0; /* the last byte is the closing bracket */
        if (at >= end || *at != ',')
            return 1;
    }
}

typedef struct {
    PyObject *list, *convert;
} Collected;

static int collect(void *context, Span price, Span quantity)
{
    Collected *into = context;
    PyObject *level = level_of(into->convert, price, quantity);
    int failed = level == NULL ? -1 : PyList_Append(into->list, level);
    Py_XDECREF(level);
    return failed;
}

PyDoc_STRVAR(decimals_doc,
             "The levels as pairs of Decimal; None if they are not in the usual spelling.");

static PyObject *decimals(PyObject *module, PyObject *raw)
{
    State *state = PyModule_GetState(module);
    Collected into = {NULL, state->decimal};
    Py_buffer view;
    int outcome;
    if (PyObject_GetBuffer(raw, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if ((into.list = PyList_New(0)) == NULL) {
        PyBuffer_Release(&view);
        return NULL;
    }
    outcome = walk_pairs(view.buf, view.len, collect, &into);
    PyBuffer_Release(&view);
    if (outcome == 0)
        return into.list;
    Py_DECREF(into.list);
    if (outcome < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"decimals", decimals, METH_O, decimals_doc},
    {NULL, NULL, 0, NULL},
};

static PyObject *imported(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name), *found;
    if (module == NULL)
        return NULL;
    found = PyObject_GetAttrString(module, name);
    Py_DECREF(module);
    return found;
}

static int add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, name, type);
    Py_XDECREF(type);
    return failed;
}

static int begin(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->raw = imported("msgspec", "Raw");
    state->decimal = imported("decimal", "Decimal");
    if (state->raw == NULL || state->decimal == NULL)
        return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0
        || PyModule_AddStringConstant(module, "SOURCES", SOURCES) < 0
        || add_type(module, &reader_spec, "Reader") < 0)
        return -1;
    return add_type(module, &book_spec, "Book");
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->raw);
    Py_VISIT(state->decimal);
    return 0;
}

static int clear_state(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->raw);
    Py_CLEAR(state->decimal);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "penstock.compiled._hot",
    .m_doc = "The compiled counterparts of reading frames and keeping books.",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
};

PyMODINIT_FUNC PyInit__hot(void);
PyMODINIT_FUNC PyInit__hot(void) { return PyModuleDef_Init(&definition); }
