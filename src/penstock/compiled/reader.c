/* Reads frames by layouts: literal text with holes of known types, written as data in Python.

   A frame that fits a layout byte by byte becomes events. Any other frame is not recognised, and
   the Python code reads it: it may be spelled differently, be an answer, or be malformed. */

#include "hot.h"

#define MS_NS 1000000LL
#define LATEST_MS (INT64_MAX / MS_NS)

enum { RECOGNISED = 0, UNKNOWN = 1, FAILED = -1 };

typedef struct {
    Span word;
    PyObject *value; /* both within the data of the hole */
} Choice;

typedef struct {
    char code;       /* see layouts.py */
    int field;       /* where the value is stored; -1: nowhere */
    int other;       /* of both sides of a book: where the asks are stored */
    PyObject *data;  /* bytes of a literal, a dict of symbols, or a tuple of choices */
    Span literal;    /* within `data` */
    Choice *choices;
    Py_ssize_t count; /* of choices */
} Op;

typedef struct {
    Op *ops;
    Py_ssize_t count;
} Ops;

typedef struct {
    PyObject *prototype, *copy, *descriptors; /* prototype is NULL where frames have no events */
    Py_ssize_t fields, offsets[MOST_FIELDS];  /* of the fields within an event */
    int symbol, received;
    int many;
    Ops head, row, tail, unit;
} Layout;

/* A stream, whose name tells the layout and the market of its frames. */
typedef struct {
    PyObject *name, *symbol, *native; /* name and native are bytes; name is NULL in a free place */
    Span text, market;                /* within `name` and `native` */
    uint32_t hash;
    Py_ssize_t layout;
} Stream;

typedef struct {
    PyObject_HEAD
    PyObject *raw, *prefix;
    PyObject *read, *read_many; /* read what is not recognised; NULL: nobody does */
    PyObject *accepted;         /* is called with events and returns those to pass on; or NULL */
    Py_ssize_t largest, count;
    Layout *layouts;
    Stream *streams;            /* by hash; a power of two of places, at most half of them taken */
    Py_ssize_t places, taken;
} Reader;

typedef struct {
    const Layout *layout;
    PyObject *values[MOST_FIELDS];
    PyObject *symbol; /* borrowed; NULL unless the name of the stream tells it, and the market */
    Span market;
    int64_t whole;
} Row;

/* ---- what a layout is made from ---- */

static void free_ops(Ops *ops)
{
    for (Py_ssize_t i = 0; i < ops->count; i++) {
        Py_XDECREF(ops->ops[i].data);
        PyMem_Free(ops->ops[i].choices);
    }
    PyMem_Free(ops->ops);
    ops->ops = NULL;
    ops->count = 0;
}

/* `((b"true", "sell"), …)` */
static int read_choices(Op *op)
{
    Py_ssize_t count = PyTuple_Size(op->data);
    if (count < 0 || (op->choices = PyMem_Calloc((size_t)count + 1, sizeof(Choice))) == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    for (; op->count < count; op->count++) {
        Choice *choice = &op->choices[op->count];
        if (!PyArg_ParseTuple(PyTuple_GetItem(op->data, op->count), "y#O", &choice->word.at,
                              &choice->word.size, &choice->value))
            return -1;
    }
    return 0;
}

static int read_op(PyObject *from, Py_ssize_t fields, Op *op)
{
    const char *code;
    char *literal;
    if (!PyArg_ParseTuple(from, "siiO", &code, &op->field, &op->other, &op->data))
        return -1;
    Py_INCREF(op->data);
    op->code = code[0];
    if (op->field >= fields || op->other >= fields) {
        PyErr_SetString(PyExc_ValueError, "a hole is stored where there is no field");
        return -1;
    }
    if (op->code == 'L') {
        if (PyBytes_AsStringAndSize(op->data, &literal, &op->literal.size) < 0)
            return -1;
        op->literal.at = literal;
    }
    if (op->code == 'K' && !PyDict_Check(op->data)) {
        PyErr_SetString(PyExc_TypeError, "a hole has other data than its type needs");
        return -1;
    }
    return op->code == 'c' ? read_choices(op) : 0;
}

static int read_ops(PyObject *from, Py_ssize_t fields, Ops *into)
{
    Py_ssize_t count = PyTuple_Size(from);
    if (count < 0 || (into->ops = PyMem_Calloc((size_t)count + 1, sizeof(Op))) == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    for (; into->count < count; into->count++)
        if (read_op(PyTuple_GetItem(from, into->count), fields, &into->ops[into->count]) < 0) {
            into->count++; /* an incomplete one is freed like the others */
            return -1;
        }
    return 0;
}

static int read_fields(Layout *layout)
{
    PyObject *sample = PyObject_CallFunctionObjArgs(layout->copy, layout->prototype, NULL);
    layout->fields = sample == NULL ? -1
                                    : find_offsets(sample, layout->descriptors, MOST_FIELDS,
                                                   layout->offsets);
    Py_XDECREF(sample);
    if (layout->fields < 0) {
        layout->fields = 0;
        return -1;
    }
    if (layout->symbol >= layout->fields || layout->received >= layout->fields) {
        PyErr_SetString(PyExc_ValueError, "an event has too few fields");
        return -1;
    }
    return 0;
}

static int read_layout(PyObject *from, Layout *layout)
{
    PyObject *prototype, *head, *row, *tail, *unit;
    if (!PyArg_ParseTuple(from, "OO!iipO!O!O!O!", &prototype, &PyTuple_Type, &layout->descriptors,
                          &layout->symbol, &layout->received, &layout->many, &PyTuple_Type, &head,
                          &PyTuple_Type, &row, &PyTuple_Type, &tail, &PyTuple_Type, &unit)) {
        layout->descriptors = NULL;
        return -1;
    }
    Py_INCREF(layout->descriptors);
    if (prototype != Py_None) {
        Py_INCREF(prototype);
        layout->prototype = prototype;
        layout->copy = PyObject_GetAttrString((PyObject *)Py_TYPE(prototype), "__copy__");
        if (layout->copy == NULL || read_fields(layout) < 0)
            return -1;
    }
    if (read_ops(head, layout->fields, &layout->head) < 0
        || read_ops(row, layout->fields, &layout->row) < 0
        || read_ops(tail, layout->fields, &layout->tail) < 0)
        return -1;
    return read_ops(unit, 4, &layout->unit);
}

static void free_layout(Layout *layout)
{
    Py_XDECREF(layout->prototype);
    Py_XDECREF(layout->copy);
    Py_XDECREF(layout->descriptors);
    free_ops(&layout->head);
    free_ops(&layout->row);
    free_ops(&layout->tail);
    free_ops(&layout->unit);
}

/* ---- holes ---- */

/* Takes the reference to the value. */
static int store(Row *row, int field, PyObject *value)
{
    PyObject *before;
    if (value == NULL)
        return FAILED;
    if (field < 0) {
        Py_DECREF(value);
        return RECOGNISED;
    }
    before = row->values[field];
    row->values[field] = value;
    Py_XDECREF(before);
    return RECOGNISED;
}

static void clear_row(Row *row)
{
    for (Py_ssize_t i = 0; i < row->layout->fields; i++)
        Py_CLEAR(row->values[i]);
}

static int number_at(const char *at, int digits)
{
    int found = 0;
    for (int i = 0; i < digits; i++) {
        if (!is_digit(at[i]))
            return -1;
        found = found * 10 + (at[i] - '0');
    }
    return found;
}

/* `2023-09-25T07:49:37.708706Z`, with one to nine decimals, in nanoseconds since 1970. */
static const char *scan_time(const char *at, const char *end, int64_t *ns)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const char marks[] = "    -  -  T  :  :  .";
    int year, month, day, hour, minute, second, leap, digits = 0;
    int64_t days, fraction = 0;
    if (end - at < 22)
        return NULL;
    for (int i = 0; i < 20; i++)
        if (marks[i] != ' ' && at[i] != marks[i])
            return NULL;
    year = number_at(at, 4), month = number_at(at + 5, 2), day = number_at(at + 8, 2);
    hour = number_at(at + 11, 2), minute = number_at(at + 14, 2), second = number_at(at + 17, 2);
    if (year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23
        || minute < 0 || minute > 59 || second < 0 || second > 59)
        return NULL;
    leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > lengths[month - 1] + (leap && month == 2))
        return NULL;
    for (at += 20; at < end && is_digit(*at) && digits < 9; digits++)
        fraction = fraction * 10 + (*at++ - '0');
    if (digits == 0 || at == end || *at != 'Z')
        return NULL;
    for (; digits < 9; digits++)
        fraction *= 10;
    days = 365LL * (year - 1970) + (year - 1969) / 4 - (year - 1901) / 100 + (year - 1601) / 400;
    for (int i = 0; i < month - 1; i++)
        days += lengths[i] + (i == 1 && leap);
    days += day - 1;
    *ns = ((days * 24 + hour) * 60 + minute) * 60 + second;
    *ns = *ns * 1000000000LL + fraction;
    return at + 1;
}

/* The bytes after a text, if it is here. */
static const char *scan_literal(Span text, const char *at, const char *end)
{
    return end - at >= text.size && !memcmp(at, text.at, (size_t)text.size) ? at + text.size : NULL;
}

/* One of the choices; its value is borrowed. */
static const char *scan_choice(const Op *op, const char *at, const char *end, PyObject **found)
{
    for (Py_ssize_t i = 0; i < op->count; i++) {
        const char *stop = scan_literal(op->choices[i].word, at, end);
        if (stop != NULL) {
            *found = op->choices[i].value;
            return stop;
        }
    }
    return NULL;
}

/* ---- levels ---- */

typedef struct {
    char *text;
    Py_ssize_t size, room;
} Buffer;

static int append_level(Buffer *into, Span price, Span quantity)
{
    Py_ssize_t needed = price.size + quantity.size + 8;
    char *at = into->text + into->size;
    if (price.at == NULL || quantity.at == NULL || into->room - into->size < needed)
        return UNKNOWN;
    *at++ = into->size ? ',' : '[';
    memcpy(at, "[\"", 2), at += 2;
    memcpy(at, price.at, (size_t)price.size), at += price.size;
    memcpy(at, "\",\"", 3), at += 3;
    memcpy(at, quantity.at, (size_t)quantity.size), at += quantity.size;
    memcpy(at, "\"]", 2);
    into->size += needed;
    return RECOGNISED;
}

/* One level, or one of each side: the spans of its numbers, and the side it names. */
static const char *scan_unit(const Ops *unit, const char *at, const char *end, Span spans[4],
                             int *asks)
{
    for (Py_ssize_t i = 0; i < unit->count && at != NULL; i++) {
        const Op *op = &unit->ops[i];
        const char *start = at;
        PyObject *side;
        switch (op->code) {
        case 'L':
            at = scan_literal(op->literal, at, end);
            break;
        case 't':
        case 'b':
            at = op->code == 't' ? scan_plain(at, end) : scan_bare(at, end);
            if (at != NULL && op->field >= 0)
                spans[op->field] = (Span){start, at - start};
            break;
        case 'c':
            if ((at = scan_choice(op, at, end, &side)) != NULL)
                *asks = side == Py_True;
            break;
        default:
            return NULL;
        }
    }
    return at;
}

static PyObject *raw_of(const Reader *reader, const char *at, Py_ssize_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(at, size), *raw;
    if (bytes == NULL)
        return NULL;
    raw = PyObject_CallFunctionObjArgs(reader->raw, bytes, NULL);
    Py_DECREF(bytes);
    return raw;
}

static int store_levels(const Reader *reader, Row *row, int field, Buffer *from)
{
    if (!from->size)
        return store(row, field, raw_of(reader, "[]", 2));
    from->text[from->size++] = ']';
    return store(row, field, raw_of(reader, from->text, from->size));
}

/* Levels that are spelled differently from ours; the code of the hole says how they are meant. */
static int spell_levels(const Reader *reader, Row *row, const Op *op, const char **at,
                        const char *end)
{
    const char *from = *at;
    Py_ssize_t room = end - from + 2; /* no level gets longer, but for the brackets around all */
    Buffer bids = {NULL, 0, room}, asks = {NULL, 0, room};
    int outcome = UNKNOWN;
    if ((bids.text = PyMem_Malloc((size_t)room * 2)) == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    asks.text = bids.text + room;
    bids.room--, asks.room--; /* for the closing bracket */
    if (from < end && *from++ == '[') {
        if (from < end && *from == ']')
            outcome = RECOGNISED;
        while (outcome == UNKNOWN) {
            Span spans[4] = {{NULL, 0}};
            int is_ask = 0;
            if ((from = scan_unit(&row->layout->unit, from, end, spans, &is_ask)) == NULL)
                break;
            if (op->code == 'u' ? (!is_zero(spans[1]) && append_level(&bids, spans[0], spans[1]))
                                      || (!is_zero(spans[3])
                                          && append_level(&asks, spans[2], spans[3]))
                                : append_level(is_ask ? &asks : &bids, spans[0], spans[1]))
                break;
            if (from < end && *from == ',')
                from++;
            else if (from < end && *from == ']')
                outcome = RECOGNISED;
            else
                break;
        }
    }
    if (outcome == RECOGNISED) {
        *at = from + 1;
        outcome = store_levels(reader, row, op->field, &bids);
        if (outcome == RECOGNISED && op->code != 'o')
            outcome = store_levels(reader, row, op->other, &asks);
    }
    PyMem_Free(bids.text);
    return outcome;
}

/* Levels in our own spelling, which are kept as they are. */
static int keep_levels(const Reader *reader, Row *row, const Op *op, const char **at,
                       const char *end)
{
    const char *from = *at;
    Span price, quantity;
    if (from == end || *from++ != '[')
        return UNKNOWN;
    if (from < end && *from != ']')
        for (;;) {
            if ((from = scan_pair(from, end, &price, &quantity)) == NULL || from == end)
                return UNKNOWN;
            if (*from == ']')
                break;
            if (*from++ != ',')
                return UNKNOWN;
        }
    if (from == end)
        return UNKNOWN;
    from++;
    {
        const char *start = *at;
        *at = from;
        return store(row, op->field, raw_of(reader, start, from - start));
    }
}

/* ---- frames ---- */

/* The symbol of a market's name that is looked up in a dict. */
static int look_up(PyObject *symbols, Span name, PyObject **found)
{
    PyObject *key = text_of(name);
    if (key == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            return FAILED;
        PyErr_Clear();
        return UNKNOWN;
    }
    *found = PyDict_GetItemWithError(symbols, key);
    Py_DECREF(key);
    if (*found != NULL)
        return RECOGNISED;
    return PyErr_Occurred() ? FAILED : UNKNOWN;
}

static int fill_hole(const Reader *reader, Row *row, const Op *op, const char **at,
                     const char *end)
{
    const char *start = *at, *stop = NULL;
    PyObject *found = NULL;
    int64_t value = 0;
    int outcome;
    switch (op->code) {
    case 'L':
    case 'N':
        if (op->code == 'N' && row->symbol == NULL)
            return UNKNOWN;
        if ((stop = scan_literal(op->code == 'L' ? op->literal : row->market, start, end)) == NULL)
            return UNKNOWN;
        *at = stop;
        return RECOGNISED;
    case 'K':
        if ((stop = scan_text(start, end, 1)) == NULL)
            return UNKNOWN;
        if ((outcome = look_up(op->data, (Span){start, stop - start}, &found)) != RECOGNISED)
            return outcome;
        Py_INCREF(found);
        break;
    case 'w':
    case 'a':
    case 'h':
    case 'm':
        if ((stop = scan_whole(start, end, &value)) == NULL)
            return UNKNOWN;
        if ((op->code == 'a' && value < row->whole) || (op->code == 'm' && value > LATEST_MS)
            || (op->code == 'h' && value > UINT32_MAX))
            return UNKNOWN;
        row->whole = value;
        found = op->field < 0 ? Py_NewRef(Py_None)
                              : PyLong_FromLongLong(op->code == 'm' ? value * MS_NS : value);
        break;
    case 'r':
        if ((stop = scan_time(start, end, &value)) == NULL)
            return UNKNOWN;
        found = PyLong_FromLongLong(value);
        break;
    case 't':
    case 'b':
        if ((stop = op->code == 't' ? scan_plain(start, end) : scan_bare(start, end)) == NULL)
            return UNKNOWN;
        found = op->field < 0 ? Py_NewRef(Py_None) : text_of((Span){start, stop - start});
        break;
    case 's':
        if ((stop = scan_bare(start + (start < end && *start == '-'), end)) == NULL)
            return UNKNOWN;
        found = Py_NewRef(Py_None);
        break;
    case 'x':
        if ((stop = scan_text(start, end, 0)) == NULL)
            return UNKNOWN;
        found = Py_NewRef(Py_None);
        break;
    case 'c':
        if ((stop = scan_choice(op, start, end, &found)) == NULL)
            return UNKNOWN;
        Py_INCREF(found);
        break;
    case 'l':
        return keep_levels(reader, row, op, at, end);
    case 'o':
    case 'd':
    case 'u':
        return spell_levels(reader, row, op, at, end);
    default:
        return UNKNOWN;
    }
    *at = stop;
    return store(row, op->field, found);
}

static int run(const Reader *reader, Row *row, const Ops *ops, const char **at, const char *end)
{
    int outcome = RECOGNISED;
    for (Py_ssize_t i = 0; i < ops->count && outcome == RECOGNISED; i++)
        outcome = fill_hole(reader, row, &ops->ops[i], at, end);
    return outcome;
}

/* The event of a row: a copy of the prototype with the values of this frame. */
static int append_event(Row *row, PyObject *stamp, PyObject *events)
{
    const Layout *layout = row->layout;
    PyObject *event = PyObject_CallFunctionObjArgs(layout->copy, layout->prototype, NULL);
    int failed;
    if (event == NULL)
        return FAILED;
    if (row->symbol != NULL)
        store(row, layout->symbol, Py_NewRef(row->symbol));
    store(row, layout->received, Py_NewRef(stamp));
    for (Py_ssize_t i = 0; i < layout->fields; i++)
        if (row->values[i] != NULL) {
            set_slot(event, layout->offsets[i], row->values[i]);
            row->values[i] = NULL;
        }
    failed = PyList_Append(events, event);
    Py_DECREF(event);
    return failed ? FAILED : RECOGNISED;
}

static int read_rows(const Reader *reader, Row *row, const char *at, const char *end,
                     PyObject *stamp, PyObject *events)
{
    const Layout *layout = row->layout;
    int outcome = run(reader, row, &layout->head, &at, end);
    while (outcome == RECOGNISED && layout->prototype != NULL) {
        outcome = run(reader, row, &layout->row, &at, end);
        if (outcome == RECOGNISED)
            outcome = append_event(row, stamp, events);
        if (outcome != RECOGNISED || !layout->many || at == end || *at != ',')
            break;
        at++;
    }
    if (outcome == RECOGNISED)
        outcome = run(reader, row, &layout->tail, &at, end);
    return outcome == RECOGNISED && at != end ? UNKNOWN : outcome;
}

/* Appends nothing unless the whole frame is recognised. */
static int read_as(const Reader *reader, const Layout *layout, const Stream *stream, Span frame,
                   PyObject *stamp, PyObject *events)
{
    Row row = {layout, {NULL}, NULL, {NULL, 0}, 0};
    Py_ssize_t before = PyList_Size(events);
    int outcome;
    if (stream != NULL)
        row.symbol = stream->symbol, row.market = stream->market;
    outcome = read_rows(reader, &row, frame.at, frame.at + frame.size, stamp, events);
    clear_row(&row);
    if (outcome == UNKNOWN && PyList_Size(events) > before
        && PyList_SetSlice(events, before, PyList_Size(events), NULL) < 0)
        return FAILED;
    return outcome;
}

/* The place of a stream's name: where it is, or where it would be. */
static Stream *place_of(const Reader *reader, Span name, uint32_t hash)
{
    Py_ssize_t mask = reader->places - 1, i = (Py_ssize_t)hash & mask;
    while (reader->streams[i].name != NULL
           && !(reader->streams[i].hash == hash && same(reader->streams[i].text, name)))
        i = (i + 1) & mask;
    return &reader->streams[i];
}

/* The name of the stream that a frame begins with; 0 if it does not. */
static int name_of(const Reader *reader, Span frame, Span *name)
{
    Py_ssize_t size = PyBytes_Size(reader->prefix);
    const char *stop;
    if (!reader->taken || frame.size < size
        || memcmp(frame.at, PyBytes_AsString(reader->prefix), (size_t)size))
        return 0;
    name->at = frame.at + size;
    if ((stop = memchr(name->at, '"', (size_t)(frame.size - size))) == NULL)
        return 0;
    name->size = stop - name->at;
    return 1;
}

/* A frame that begins with the name of its stream. */
static int read_named(const Reader *reader, Span frame, PyObject *stamp, PyObject *events)
{
    const Stream *stream;
    const char *stop;
    Span name;
    if (!name_of(reader, frame, &name))
        return UNKNOWN;
    stream = place_of(reader, name, hash_of(name));
    if (stream->name == NULL)
        return UNKNOWN;
    stop = name.at + name.size;
    frame.size -= stop - frame.at;
    frame.at = stop;
    return read_as(reader, &reader->layouts[stream->layout], stream, frame, stamp, events);
}

/* Prefetches the streams of frames, and their symbols, which each event refers to. */
static void prefetch_streams(const Reader *reader, PyObject *frames)
{
    Py_ssize_t count = PyList_Size(frames), found = 0;
    const Stream **at = PyMem_Malloc((size_t)count * sizeof(Stream *));
    for (Py_ssize_t i = 0; at != NULL && i < count; i++) {
        PyObject *frame = PyList_GetItem(frames, i);
        Span name;
        if (!PyBytes_Check(frame)
            || !name_of(reader, (Span){PyBytes_AsString(frame), PyBytes_Size(frame)}, &name))
            continue;
        at[found] = &reader->streams[(Py_ssize_t)hash_of(name) & (reader->places - 1)];
        prefetch(at[found++], sizeof(Stream));
    }
    for (Py_ssize_t i = 0; i < found; i++) {
        __builtin_prefetch(at[i]->text.at);
        __builtin_prefetch(at[i]->market.at);
        __builtin_prefetch(at[i]->symbol);
    }
    PyMem_Free(at);
}

static int read_frame(const Reader *reader, PyObject *frame, PyObject *stamp, PyObject *events)
{
    Span text;
    int outcome = UNKNOWN;
    if (PyBytes_Check(frame)) {
        text.size = PyBytes_Size(frame);
        text.at = PyBytes_AsString(frame);
    } else if (PyUnicode_Check(frame)) {
        text.at = PyUnicode_AsUTF8AndSize(frame, &text.size);
        if (text.at == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeError))
                return FAILED;
            PyErr_Clear(); /* a lone surrogate */
            return UNKNOWN;
        }
    } else {
        return UNKNOWN;
    }
    if (text.size > reader->largest)
        return UNKNOWN;
    if (reader->prefix != NULL)
        return read_named(reader, text, stamp, events);
    for (Py_ssize_t i = 0; i < reader->count && outcome == UNKNOWN; i++)
        outcome = read_as(reader, &reader->layouts[i], NULL, text, stamp, events);
    return outcome;
}

/* What is returned for frames: their events, or what others make of them. */
static PyObject *answer(const Reader *reader, int outcome, PyObject *events, PyObject *otherwise,
                        PyObject *const *args)
{
    PyObject *passed;
    if (outcome == RECOGNISED) {
        if (reader->accepted == NULL)
            return events;
        passed = PyObject_CallFunctionObjArgs(reader->accepted, events, NULL);
        Py_DECREF(events);
        return passed;
    }
    Py_DECREF(events);
    if (outcome == FAILED)
        return NULL;
    if (otherwise == NULL)
        Py_RETURN_NONE;
    return PyObject_CallFunctionObjArgs(otherwise, args[0], args[1], NULL);
}

static int are_two(Py_ssize_t given)
{
    if (given == 2)
        return 1;
    PyErr_SetString(PyExc_TypeError, "frames and their times are needed");
    return 0;
}

PyDoc_STRVAR(read_doc, "read(frame, received_at_ns)\n--\n\n"
                       "What a frame has to say; None if it is not recognised and nobody else"
                       " reads it.");

static PyObject *reader_read(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Reader *reader = (Reader *)self;
    PyObject *events = are_two(given) ? PyList_New(0) : NULL;
    if (events == NULL)
        return NULL;
    return answer(reader, read_frame(reader, args[0], args[1], events), events, reader->read, args);
}

PyDoc_STRVAR(read_many_doc,
             "read_many(frames, received_at_ns)\n--\n\n"
             "The events of frames, in order; None if one of them cannot be read like this.");

static PyObject *reader_read_many(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Reader *reader = (Reader *)self;
    PyObject *events;
    Py_ssize_t count, stamps;
    int outcome = RECOGNISED;
    if (!are_two(given))
        return NULL;
    if ((count = PySequence_Size(args[0])) < 0 || (stamps = PySequence_Size(args[1])) < 0)
        return NULL;
    if (stamps != count)
        outcome = UNKNOWN;
    if (reader->taken >= MANY && PyList_Check(args[0]))
        prefetch_streams(reader, args[0]);
    if ((events = PyList_New(0)) == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count && outcome == RECOGNISED; i++) {
        PyObject *frame = PySequence_GetItem(args[0], i);
        PyObject *stamp = frame == NULL ? NULL : PySequence_GetItem(args[1], i);
        outcome = stamp == NULL ? FAILED : read_frame(reader, frame, stamp, events);
        Py_XDECREF(frame);
        Py_XDECREF(stamp);
    }
    return answer(reader, outcome, events, reader->read_many, args);
}

/* ---- streams ---- */

/* Room for one more; 0 if there is no memory. */
static int reserve_stream(Reader *reader)
{
    Reader grown = *reader;
    if (reader->taken * 2 < reader->places)
        return 1;
    grown.places = reader->places ? reader->places * 2 : 64;
    if ((grown.streams = PyMem_Calloc((size_t)grown.places, sizeof(Stream))) == NULL)
        return 0;
    for (Py_ssize_t i = 0; i < reader->places; i++)
        if (reader->streams[i].name != NULL)
            *place_of(&grown, reader->streams[i].text, reader->streams[i].hash)
                = reader->streams[i];
    PyMem_Free(reader->streams);
    reader->streams = grown.streams;
    reader->places = grown.places;
    return 1;
}

PyDoc_STRVAR(add_doc, "add(name, layout, symbol, native)\n--\n\n"
                      "Add a stream, by the number of its layout; without effect if its name is"
                      " known.");

static PyObject *reader_add(PyObject *self, PyObject *args)
{
    Reader *reader = (Reader *)self;
    PyObject *name, *symbol, *native;
    Py_ssize_t layout;
    Stream *place;
    Span text, market;
    if (!PyArg_ParseTuple(args, "SnOS", &name, &layout, &symbol, &native))
        return NULL;
    if (layout < 0 || layout >= reader->count || reader->prefix == NULL) {
        PyErr_SetString(PyExc_ValueError, "there is no such layout of named frames");
        return NULL;
    }
    text = (Span){PyBytes_AsString(name), PyBytes_Size(name)};
    market = (Span){PyBytes_AsString(native), PyBytes_Size(native)};
    for (Py_ssize_t i = 0; i < text.size; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == '"' || text.at[i] == '\\')
            Py_RETURN_NONE; /* JSON spells it with escapes, and bytes are compared */
    if (!reserve_stream(reader))
        return PyErr_NoMemory();
    place = place_of(reader, text, hash_of(text));
    if (place->name == NULL) {
        *place = (Stream){Py_NewRef(name), Py_NewRef(symbol), Py_NewRef(native), text, market,
                          hash_of(text), layout};
        reader->taken++;
    }
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static int reader_visit(PyObject *self, visitproc visit, void *arg)
{
    Reader *reader = (Reader *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader->read);
    Py_VISIT(reader->read_many);
    Py_VISIT(reader->accepted);
    return 0;
}

static int reader_clear(PyObject *self)
{
    Reader *reader = (Reader *)self;
    Py_CLEAR(reader->read);
    Py_CLEAR(reader->read_many);
    Py_CLEAR(reader->accepted);
    return 0;
}

static void reader_free(PyObject *self)
{
    Reader *reader = (Reader *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    reader_clear(self);
    for (Py_ssize_t i = 0; i < reader->count; i++)
        free_layout(&reader->layouts[i]);
    PyMem_Free(reader->layouts);
    for (Py_ssize_t i = 0; i < reader->places; i++) {
        Py_XDECREF(reader->streams[i].name);
        Py_XDECREF(reader->streams[i].symbol);
        Py_XDECREF(reader->streams[i].native);
    }
    PyMem_Free(reader->streams);
    Py_XDECREF(reader->raw);
    Py_XDECREF(reader->prefix);
    release(self);
    Py_DECREF(type);
}

/* A function that may be missing. */
static int keep_function(PyObject *function, PyObject **into)
{
    if (function == Py_None)
        return 0;
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "what is called must be a function");
        return -1;
    }
    *into = Py_NewRef(function);
    return 0;
}

static int fill_layouts(Reader *reader, PyObject *layouts)
{
    Py_ssize_t count = PyTuple_Size(layouts);
    if ((reader->layouts = PyMem_Calloc((size_t)count + 1, sizeof(Layout))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (reader->count < count) {
        PyObject *layout = PyTuple_GetItem(layouts, reader->count);
        if (!PyTuple_Check(layout)) {
            PyErr_SetString(PyExc_TypeError, "a layout is a tuple");
            return -1;
        }
        reader->count++; /* also of one that is incomplete, which is freed like the others */
        if (read_layout(layout, &reader->layouts[reader->count - 1]) < 0)
            return -1;
    }
    return 0;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"largest", "layouts", "prefix", "read", "read_many", "accepted", NULL};
    PyObject *layouts, *prefix = NULL, *read = Py_None, *read_many = Py_None, *accepted = Py_None;
    Py_ssize_t largest;
    State *state = PyType_GetModuleState(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *reader;
    if (state == NULL)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nO!|SOOO", names, &largest, &PyTuple_Type,
                                     &layouts, &prefix, &read, &read_many, &accepted))
        return NULL;
    if ((reader = (Reader *)allocate(type, 0)) == NULL)
        return NULL;
    reader->largest = largest;
    reader->raw = Py_NewRef(state->raw);
    reader->prefix = Py_XNewRef(prefix);
    if (keep_function(read, &reader->read) < 0 || keep_function(read_many, &reader->read_many) < 0
        || keep_function(accepted, &reader->accepted) < 0 || fill_layouts(reader, layouts) < 0) {
        Py_DECREF(reader);
        return NULL;
    }
    return (PyObject *)reader;
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL, read_doc},
    {"read_many", (PyCFunction)(void (*)(void))reader_read_many, METH_FASTCALL, read_many_doc},
    {"add", reader_add, METH_VARARGS, add_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads frames by layouts."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_free},
    {Py_tp_traverse, reader_visit},
    {Py_tp_clear, reader_clear},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

PyType_Spec reader_spec = {
    .name = "penstock.compiled._hot.Reader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = reader_slots,
};
