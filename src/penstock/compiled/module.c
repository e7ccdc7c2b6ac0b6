/* The extension `penstock.compiled._hot`: see docs/decisions/0022-a-compiled-hot-path.md.

   Every function either does exactly what its counterpart in Python does or says that the input is
   not in the usual spelling; then the Python code decides. */

#include "hot.h"

PyObject *text_of(Span span) { return PyUnicode_FromStringAndSize(span.at, span.size); }

static PyObject *new_decimal(State *state, Span number)
{
    PyObject *text = text_of(number), *value;
    if (text == NULL)
        return NULL;
    value = PyObject_CallFunctionObjArgs(state->create, text, NULL);
    Py_DECREF(text);
    return value;
}

static PyObject *new_decimal_of(State *state, PyObject *text)
{
    return PyObject_CallFunctionObjArgs(state->create, text, NULL);
}

/* A number that there may be a text of. */
static PyObject *known_decimal(State *state, Span number, PyObject *text)
{
    Remembered *place;
    PyObject *value, *before;
    if (number.size > LONGEST_REMEMBERED)
        return text == NULL ? new_decimal(state, number) : new_decimal_of(state, text);
    place = &state->numbers[hash_of(number) % REMEMBERED];
    if (place->decimal != NULL && same((Span){place->text, place->size}, number))
        return Py_NewRef(place->decimal);
    value = text == NULL ? new_decimal(state, number) : new_decimal_of(state, text);
    if (value == NULL)
        return NULL;
    before = place->decimal;
    place->decimal = Py_NewRef(value);
    place->size = (unsigned char)number.size;
    memcpy(place->text, number.at, (size_t)number.size);
    Py_XDECREF(before);
    return value;
}

PyObject *decimal_of(State *state, Span number) { return known_decimal(state, number, NULL); }

PyObject *number_of(State *state, PyObject *text, int repeats)
{
    Span span;
    if (PyUnicode_Check(text)) {
        if ((span.at = PyUnicode_AsUTF8AndSize(text, &span.size)) == NULL)
            PyErr_Clear(); /* a lone surrogate: the type says what is wrong with it */
        else if (scan_plain(span.at, span.at + span.size) == span.at + span.size)
            return repeats ? known_decimal(state, span, text) : new_decimal_of(state, text);
    }
    return PyObject_CallFunctionObjArgs(state->decimal, text, NULL);
}

PyObject *level_of(State *state, Span price, Span quantity)
{
    PyObject *first, *second, *level;
    if (state == NULL) {
        first = text_of(price);
        second = first == NULL ? NULL : text_of(quantity);
    } else {
        /* Of quantities, only zero comes again and again. */
        first = decimal_of(state, price);
        second = first == NULL       ? NULL
                 : is_zero(quantity) ? decimal_of(state, quantity)
                                     : new_decimal(state, quantity);
    }
    level = first == NULL || second == NULL ? NULL : PyTuple_New(2);
    if (level == NULL) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return NULL;
    }
    PyTuple_SetItem(level, 0, first); /* takes the reference; cannot fail on a new tuple */
    PyTuple_SetItem(level, 1, second);
    return level;
}

/* A level of a whole book, most of which are those of the book before. */
static PyObject *known_level(State *state, Span price, Span quantity)
{
    Span text = {price.at, quantity.at + quantity.size - price.at};
    KnownLevel *place;
    PyObject *level, *before;
    if (text.size > LONGEST_LEVEL)
        return level_of(state, price, quantity);
    place = &state->levels[hash_of(text) % REMEMBERED];
    if (place->level != NULL && same((Span){place->text, place->size}, text))
        return Py_NewRef(place->level);
    if ((level = level_of(state, price, quantity)) == NULL)
        return NULL;
    before = place->level;
    place->level = Py_NewRef(level);
    place->size = (unsigned char)text.size;
    memcpy(place->text, text.at, (size_t)text.size);
    Py_XDECREF(before);
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
    PyObject *list;
    State *state;
    int whole;
} Collected;

static int collect(void *context, Span price, Span quantity)
{
    Collected *into = context;
    PyObject *level = into->whole ? known_level(into->state, price, quantity)
                                  : level_of(into->state, price, quantity);
    int failed = level == NULL ? -1 : PyList_Append(into->list, level);
    Py_XDECREF(level);
    return failed;
}

PyObject *levels_of(State *state, PyObject *raw, int whole)
{
    Collected into = {NULL, state, whole};
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

PyDoc_STRVAR(decimals_doc,
             "The levels as pairs of Decimal; None if they are not in the usual spelling.");

static PyObject *decimals(PyObject *module, PyObject *raw)
{
    return levels_of(PyModule_GetState(module), raw, 0);
}

PyDoc_STRVAR(number_doc, "The Decimal of a text, as ``Decimal(text)`` makes it.");

static PyObject *number(PyObject *module, PyObject *text)
{
    return number_of(PyModule_GetState(module), text, 1);
}

static PyMethodDef functions[] = {
    {"number", number, METH_O, number_doc},
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

/* `Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN).create_decimal` */
static PyObject *exact_creator(void)
{
    PyObject *type = imported("decimal", "Context"), *prec = imported("decimal", "MAX_PREC");
    PyObject *most = imported("decimal", "MAX_EMAX"), *least = imported("decimal", "MIN_EMIN");
    PyObject *context = NULL, *create = NULL;
    if (type != NULL && prec != NULL && most != NULL && least != NULL)
        /* precision, rounding, least and greatest exponent */
        context = PyObject_CallFunctionObjArgs(type, prec, Py_None, least, most, NULL);
    if (context != NULL)
        create = PyObject_GetAttrString(context, "create_decimal");
    Py_XDECREF(type);
    Py_XDECREF(prec);
    Py_XDECREF(most);
    Py_XDECREF(least);
    Py_XDECREF(context);
    return create;
}

static PyObject *added_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddObjectRef(module, name, type) < 0)
        Py_CLEAR(type);
    return type;
}

static int add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = added_type(module, spec, name);
    Py_XDECREF(type);
    return type == NULL ? -1 : 0;
}

static int begin(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->raw = imported("msgspec", "Raw");
    state->decimal = imported("decimal", "Decimal");
    state->create = exact_creator();
    if (state->raw == NULL || state->decimal == NULL || state->create == NULL)
        return -1;
    state->numbers = PyMem_Calloc(REMEMBERED, sizeof(Remembered));
    state->levels = PyMem_Calloc(REMEMBERED, sizeof(KnownLevel));
    if (state->numbers == NULL || state->levels == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0
        || PyModule_AddStringConstant(module, "SOURCES", SOURCES) < 0
        || add_type(module, &number_spec, "Number") < 0
        || add_type(module, &levels_spec, "Levels") < 0
        || add_type(module, &relay_spec, "Relay") < 0
        || add_type(module, &incoming_spec, "Incoming") < 0
        || add_type(module, &packer_spec, "Packer") < 0
        || add_type(module, &updater_spec, "Updater") < 0
        || add_type(module, &gatherer_spec, "Gatherer") < 0
        || add_type(module, &latest_spec, "Latest") < 0
        || add_type(module, &frames_spec, "PlainFrames") < 0
        || add_type(module, &reader_spec, "Reader") < 0
        || add_type(module, &appender_spec, "Appender") < 0)
        return -1;
    if ((state->encoder = added_type(module, &encoder_spec, "Encoder")) == NULL)
        return -1;
    if ((state->appended = added_type(module, &appended_spec, "Appended")) == NULL)
        return -1;
    if ((state->book = added_type(module, &book_spec, "Book")) == NULL)
        return -1;
    return 0;
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->raw);
    Py_VISIT(state->decimal);
    Py_VISIT(state->create);
    Py_VISIT(state->encoder);
    Py_VISIT(state->book);
    Py_VISIT(state->appended);
    return 0;
}

static int clear_state(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->raw);
    Py_CLEAR(state->decimal);
    Py_CLEAR(state->create);
    Py_CLEAR(state->encoder);
    Py_CLEAR(state->book);
    Py_CLEAR(state->appended);
    for (Py_ssize_t i = 0; state->numbers != NULL && i < REMEMBERED; i++)
        Py_CLEAR(state->numbers[i].decimal);
    for (Py_ssize_t i = 0; state->levels != NULL && i < REMEMBERED; i++)
        Py_CLEAR(state->levels[i].level);
    return 0;
}

static void free_state(void *module)
{
    State *state = PyModule_GetState(module);
    clear_state(module);
    PyMem_Free(state->numbers);
    PyMem_Free(state->levels);
    state->numbers = NULL;
    state->levels = NULL;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "penstock.compiled._hot",
    .m_doc = "The compiled counterparts of reading frames, keeping books and appending records.",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit__hot(void);
PyMODINIT_FUNC PyInit__hot(void) { return PyModuleDef_Init(&definition); }
