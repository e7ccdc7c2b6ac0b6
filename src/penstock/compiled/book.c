/* The levels of a book, changed directly from their bytes.

   A side has the keys of its levels in ascending order, the best last; a key is the price as an
   integer at a scale common to the book, negative for asks. The text of a price is not kept: it is
   written anew from the key and the number of decimals. Levels that are not in the usual spelling,
   or do not fit, are refused before anything is changed; `levels` in Python then goes on with the
   book that is written in Python. */

#include "hot.h"
#include <stdlib.h>

#define LONGEST 22          /* characters of a quantity */
#define LONGEST_PRICE 21    /* the digits of 64 bits, and a point */
#define LEAST_SCALE 8
#define MOST_DECIMALS 18
#define LARGEST_KEY (INT64_MAX / 4)
#define FEW 64
#define AT_ONCE 1024

typedef struct {
    unsigned char decimals; /* of the price */
    unsigned char quantity_size;
    char quantity[LONGEST];
} Level;

typedef struct {
    int64_t *keys;    /* ascending */
    uint32_t *places; /* of each key: its level; then the places without a level */
    Level *levels;
    Py_ssize_t count, room;
} Side;

typedef struct {
    PyObject_HEAD
    PyObject *module; /* keeps the state */
    State *state;
    Side sides[2]; /* bids, asks */
    int scale;
    Py_ssize_t depth; /* of a side, at most; 0: any */
} Book;

typedef struct {
    int64_t number; /* the price without its point; then the key */
    int decimals, is_zero;
    Span quantity;
    Py_ssize_t order;
} Change;

typedef struct {
    Change *items;
    Py_ssize_t count, room;
    Change few[FEW];
} Changes;

static const int64_t POWERS[] = {
    1LL, 10LL, 100LL, 1000LL, 10000LL, 100000LL, 1000000LL, 10000000LL, 100000000LL, 1000000000LL,
    10000000000LL, 100000000000LL, 1000000000000LL, 10000000000000LL, 100000000000000LL,
    1000000000000000LL, 10000000000000000LL, 100000000000000000LL, 1000000000000000000LL};

/* ---- numbers ---- */

/* The digits of a plain number as an integer, read together with the number; NULL if they are too
   many, or if the number would not be written like this again: `.5`, `5.`, `05`. */
static const char *scan_number(const char *at, const char *end, int64_t *number, int *decimals)
{
    const char *start = at, *point = NULL;
    int64_t found = 0;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (digit <= 9) {
            if (found >= LARGEST_KEY / 10)
                return NULL;
            found = found * 10 + digit;
        } else if (*at == '.' && point == NULL) {
            point = at;
        } else {
            break;
        }
    }
    if (at == start || point == start || point == at - 1
        || (*start == '0' && at - start > 1 && point != start + 1))
        return NULL;
    *number = found;
    *decimals = point == NULL ? 0 : (int)(at - point - 1);
    return *decimals <= MOST_DECIMALS ? at : NULL;
}

static int times_power(int64_t *number, int power)
{
    if (power < 0 || power > MOST_DECIMALS || *number > LARGEST_KEY / POWERS[power]
        || *number < -LARGEST_KEY / POWERS[power])
        return 0;
    *number *= POWERS[power];
    return 1;
}

/* Makes room for more decimals; 0, and no change, if keys would become too large. */
static int rescale(Book *book, int decimals)
{
    int power = decimals - book->scale;
    if (power <= 0)
        return 1;
    for (int s = 0; s < 2; s++)
        for (Py_ssize_t i = 0; i < book->sides[s].count; i++) {
            int64_t key = book->sides[s].keys[i];
            if (!times_power(&key, power))
                return 0;
        }
    for (int s = 0; s < 2; s++)
        for (Py_ssize_t i = 0; i < book->sides[s].count; i++)
            book->sides[s].keys[i] *= POWERS[power];
    book->scale = decimals;
    return 1;
}

/* ---- sides ---- */

static void free_side(Side *side)
{
    PyMem_Free(side->keys);
    PyMem_Free(side->places);
    PyMem_Free(side->levels);
    memset(side, 0, sizeof *side);
}

static int grow(void **array, size_t size, Py_ssize_t room)
{
    void *grown = PyMem_Realloc(*array, size * (size_t)room);
    if (grown == NULL)
        return 0;
    *array = grown;
    return 1;
}

/* Room for so many more levels; 0 if there is no memory. */
static int reserve(Side *side, Py_ssize_t more)
{
    Py_ssize_t needed = side->count + more, room = needed + needed / 4 + 16;
    if (needed <= side->room)
        return 1;
    if (room > UINT32_MAX || !grow((void **)&side->keys, sizeof(int64_t), room)
        || !grow((void **)&side->places, sizeof(uint32_t), room)
        || !grow((void **)&side->levels, sizeof(Level), room))
        return 0;
    for (Py_ssize_t i = side->room; i < room; i++)
        side->places[i] = (uint32_t)i;
    side->room = room;
    return 1;
}

static void clear_side(Side *side)
{
    side->count = 0;
    for (Py_ssize_t i = 0; i < side->room; i++)
        side->places[i] = (uint32_t)i;
}

/* The position of the first key that is not below this one; near the best it is found soon. */
static Py_ssize_t position(const Side *side, int64_t key)
{
    Py_ssize_t low = side->count, high = side->count, step = 1;
    while (low > 0 && side->keys[low - 1] >= key) {
        high = low - 1;
        low = high > step ? high - step : 0;
        step *= 2;
        if (side->keys[low] < key)
            break;
        high = low;
    }
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (side->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void write_level(Level *level, const Change *change)
{
    level->decimals = (unsigned char)change->decimals;
    level->quantity_size = (unsigned char)change->quantity.size;
    memcpy(level->quantity, change->quantity.at, (size_t)change->quantity.size);
}

static void remove_at(Side *side, Py_ssize_t at)
{
    uint32_t place = side->places[at];
    size_t after = (size_t)(side->count - at - 1);
    memmove(side->keys + at, side->keys + at + 1, sizeof(int64_t) * after);
    memmove(side->places + at, side->places + at + 1, sizeof(uint32_t) * after);
    side->places[--side->count] = place;
}

/* There must be room for one more. */
static void set_level(Side *side, const Change *change)
{
    Py_ssize_t at = position(side, change->number);
    int held = at < side->count && side->keys[at] == change->number;
    if (change->is_zero) {
        if (held)
            remove_at(side, at);
        return;
    }
    if (!held) {
        uint32_t place = side->places[side->count];
        size_t after = (size_t)(side->count - at);
        memmove(side->keys + at + 1, side->keys + at, sizeof(int64_t) * after);
        memmove(side->places + at + 1, side->places + at, sizeof(uint32_t) * after);
        side->keys[at] = change->number;
        side->places[at] = place;
        side->count++;
    }
    write_level(&side->levels[side->places[at]], change);
}

static void drop_worst(Side *side, Py_ssize_t count)
{
    uint32_t dropped[AT_ONCE];
    while (count > 0) {
        size_t some = (size_t)(count < AT_ONCE ? count : AT_ONCE), kept = (size_t)side->count - some;
        memcpy(dropped, side->places, sizeof(uint32_t) * some);
        memmove(side->keys, side->keys + some, sizeof(int64_t) * kept);
        memmove(side->places, side->places + some, sizeof(uint32_t) * kept);
        memcpy(side->places + kept, dropped, sizeof(uint32_t) * some);
        side->count -= (Py_ssize_t)some;
        count -= (Py_ssize_t)some;
    }
}

/* ---- changes ---- */

/* Room for one more; 0 if there is no memory. */
static int reserve_change(Changes *changes)
{
    Py_ssize_t room = changes->room * 4;
    Change *items = changes->items == changes->few ? NULL : changes->items, *grown;
    if (changes->count < changes->room)
        return 1;
    if ((grown = PyMem_Realloc(items, sizeof(Change) * (size_t)room)) == NULL)
        return 0;
    if (items == NULL)
        memcpy(grown, changes->few, sizeof changes->few);
    changes->items = grown;
    changes->room = room;
    return 1;
}

/* `["price","quantity"]` */
static const char *scan_change(const char *at, const char *end, Change *change)
{
    const char *stop;
    if (end - at < 2 || at[0] != '[' || at[1] != '"')
        return NULL;
    if (!(stop = scan_number(at + 2, end, &change->number, &change->decimals)) || end - stop < 3
        || memcmp(stop, "\",\"", 3))
        return NULL;
    change->quantity.at = stop + 3;
    if (!(stop = scan_plain(stop + 3, end)) || end - stop < 2 || memcmp(stop, "\"]", 2))
        return NULL;
    change->quantity.size = stop - change->quantity.at;
    change->is_zero = is_zero(change->quantity);
    return change->quantity.size <= LONGEST ? stop + 2 : NULL;
}

/* All levels of a side; 1 if they are not in the usual spelling, -1 with an exception set. */
static int read_changes(const Py_buffer *raw, Changes *changes)
{
    const char *at = raw->buf, *end = at + raw->len;
    if (raw->len < 2 || *at != '[' || end[-1] != ']')
        return 1;
    if (raw->len == 2)
        return 0;
    do {
        if (!reserve_change(changes)) {
            PyErr_NoMemory();
            return -1;
        }
        if ((at = scan_change(at + 1, end, &changes->items[changes->count])) == NULL)
            return 1;
        changes->items[changes->count].order = changes->count;
        changes->count++;
    } while (at < end && *at == ',');
    return at != end - 1; /* the last byte is the closing bracket */
}

static void begin_changes(Changes *changes)
{
    changes->items = changes->few;
    changes->count = 0;
    changes->room = FEW;
}

static void end_changes(Changes *changes)
{
    if (changes->items != changes->few)
        PyMem_Free(changes->items);
}

/* The prices of both sides as keys; 0, and no change of the book, if they do not fit. */
static int make_keys(Book *book, Changes both[2])
{
    int decimals = book->scale;
    for (int s = 0; s < 2; s++)
        for (Py_ssize_t i = 0; i < both[s].count; i++)
            if (both[s].items[i].decimals > decimals)
                decimals = both[s].items[i].decimals;
    for (int s = 0; s < 2; s++)
        for (Py_ssize_t i = 0; i < both[s].count; i++) {
            Change *change = &both[s].items[i];
            if (!times_power(&change->number, decimals - change->decimals))
                return 0;
            if (s)
                change->number = -change->number;
        }
    return rescale(book, decimals);
}

static int by_key(const void *first, const void *second)
{
    const Change *a = first, *b = second;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* The levels of an empty side; of a repeated price the last one counts. */
static void fill_side(Side *side, Changes *changes)
{
    qsort(changes->items, (size_t)changes->count, sizeof(Change), by_key);
    for (Py_ssize_t i = 0; i < changes->count; i++) {
        const Change *change = &changes->items[i];
        if (i + 1 < changes->count && change[1].number == change->number)
            continue;
        if (!change->is_zero)
            set_level(side, change);
    }
}

void prefetch_best(PyObject *self)
{
    const Book *book = (Book *)self;
    for (int s = 0; s < 2; s++) {
        const Side *side = &book->sides[s];
        if (side->count) {
            __builtin_prefetch(&side->keys[side->count - 1]);
            __builtin_prefetch(&side->places[side->count - 1]);
        }
    }
}

static int is_crossed(const Book *book)
{
    const Side *bids = &book->sides[0], *asks = &book->sides[1];
    return bids->count && asks->count && bids->keys[bids->count - 1] >= -asks->keys[asks->count - 1];
}

/* Applies or loads both sides; 1, and no change, if they are not in the usual spelling. */
static int take(Book *book, const Py_buffer *bids, const Py_buffer *asks, int anew)
{
    Changes both[2];
    int outcome;
    begin_changes(&both[0]);
    begin_changes(&both[1]);
    outcome = read_changes(bids, &both[0]);
    if (outcome == 0)
        outcome = read_changes(asks, &both[1]);
    if (outcome == 0 && anew) {
        /* Old keys must not keep a new scale from fitting. */
        clear_side(&book->sides[0]);
        clear_side(&book->sides[1]);
        book->scale = LEAST_SCALE;
    }
    if (outcome == 0)
        outcome = !make_keys(book, both);
    if (outcome == 0
        && (!reserve(&book->sides[0], both[0].count) || !reserve(&book->sides[1], both[1].count))) {
        PyErr_NoMemory();
        outcome = -1;
    }
    for (int s = 0; s < 2 && outcome == 0; s++) {
        Side *side = &book->sides[s];
        if (anew)
            fill_side(side, &both[s]);
        else
            for (Py_ssize_t i = 0; i < both[s].count; i++)
                set_level(side, &both[s].items[i]);
        if (book->depth && side->count > book->depth)
            drop_worst(side, side->count - book->depth);
    }
    end_changes(&both[0]);
    end_changes(&both[1]);
    return outcome;
}

static int take_raw(Book *book, PyObject *bids, PyObject *asks, int anew)
{
    Py_buffer of_bids, of_asks;
    int outcome;
    if (PyObject_GetBuffer(bids, &of_bids, PyBUF_SIMPLE) < 0)
        return -1;
    if (PyObject_GetBuffer(asks, &of_asks, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&of_bids);
        return -1;
    }
    outcome = take(book, &of_bids, &of_asks, anew);
    PyBuffer_Release(&of_bids);
    PyBuffer_Release(&of_asks);
    return outcome;
}

int change_book(PyObject *book, PyObject *bids, PyObject *asks)
{
    return take_raw((Book *)book, bids, asks, 0);
}

int has_crossed(PyObject *book) { return is_crossed((Book *)book); }

static PyObject *taken(PyObject *self, PyObject *const *args, Py_ssize_t count, int anew)
{
    int outcome;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "bids and asks are needed");
        return NULL;
    }
    outcome = take_raw((Book *)self, args[0], args[1], anew);
    if (outcome < 0)
        return NULL;
    return PyBool_FromLong(outcome == 0);
}

PyDoc_STRVAR(apply_doc, "apply(bids, asks)\n--\n\nSet levels; False, and no change, if they are not"
                        " in the usual spelling or do not fit.");

static PyObject *book_apply(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return taken(self, args, count, 0);
}

PyDoc_STRVAR(load_doc, "load(bids, asks)\n--\n\nReplace all levels; False, and an empty book or no"
                       " change, if they are not in the usual spelling or do not fit.");

static PyObject *book_load(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return taken(self, args, count, 1);
}

PyDoc_STRVAR(forget_doc, "forget_beyond(bid, ask)\n--\n\nDrop bids below and asks above these prices"
                         " (texts, or None); False, and no change, if they do not fit.");

static PyObject *book_forget(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Book *book = (Book *)self;
    int64_t keys[2] = {0, 0};
    int decimals[2] = {0, 0}, most = book->scale;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a bid and an ask are needed");
        return NULL;
    }
    for (int s = 0; s < 2; s++) {
        Span text;
        if (args[s] == Py_None)
            continue;
        if ((text.at = PyUnicode_AsUTF8AndSize(args[s], &text.size)) == NULL)
            return NULL;
        if (scan_number(text.at, text.at + text.size, &keys[s], &decimals[s]) != text.at + text.size)
            Py_RETURN_FALSE;
        most = decimals[s] > most ? decimals[s] : most;
    }
    for (int s = 0; s < 2; s++)
        if (!times_power(&keys[s], most - decimals[s]))
            Py_RETURN_FALSE;
    if (!rescale(book, most))
        Py_RETURN_FALSE;
    for (int s = 0; s < 2; s++)
        if (args[s] != Py_None)
            drop_worst(&book->sides[s], position(&book->sides[s], s ? -keys[s] : keys[s]));
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(crossed_doc, "crossed()\n--\n\nWhether the best bid reaches the best ask.");

static PyObject *book_crossed(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(is_crossed((Book *)self));
}

/* ---- reading ---- */

/* The price of a key as an integer of so many decimals. */
static uint64_t price_number(const Book *book, int64_t key, int decimals)
{
    return (uint64_t)(key < 0 ? -key : key) / (uint64_t)POWERS[book->scale - decimals];
}

/* Writes the digits of a number before `end`, none of zero; returns the first. */
static char *write_digits(char *end, uint64_t number)
{
    for (; number; number /= 10)
        *--end = (char)('0' + number % 10);
    return end;
}

/* The text of a price, in the given room. */
static Span write_price(char room[LONGEST_PRICE], uint64_t number, int decimals)
{
    char *end = room + LONGEST_PRICE, *at = write_digits(end, number), *point = end - decimals;
    while (at >= point)
        *--at = '0'; /* at least one digit before the point */
    if (decimals) {
        memmove(at - 1, at, (size_t)(point - at));
        at--;
        point[-1] = '.';
    }
    return (Span){at, end - at};
}

static PyObject *shown(const Book *book, const Side *side, Py_ssize_t from_best, State *state)
{
    /* A copy: the collector may run while objects are made, and change what it likes. */
    Py_ssize_t at = side->count - 1 - from_best;
    const Level level = side->levels[side->places[at]];
    char room[LONGEST_PRICE];
    Span price = write_price(room, price_number(book, side->keys[at], level.decimals), level.decimals);
    return level_of(state, price, (Span){level.quantity, level.quantity_size});
}

static PyObject *best_of(PyObject *self, int which)
{
    Book *book = (Book *)self;
    if (!book->sides[which].count)
        Py_RETURN_NONE;
    return shown(book, &book->sides[which], 0, book->state);
}

static PyObject *book_best_bid(PyObject *self, void *Py_UNUSED(closure)) { return best_of(self, 0); }
static PyObject *book_best_ask(PyObject *self, void *Py_UNUSED(closure)) { return best_of(self, 1); }

static PyObject *side_texts(const Book *book, const Side *side, Py_ssize_t most)
{
    Py_ssize_t count = most < side->count ? most : side->count;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < count && i < side->count; i++) {
        PyObject *level = shown(book, side, i, NULL);
        if (level == NULL || PyList_Append(list, level) < 0)
            Py_CLEAR(list);
        Py_XDECREF(level);
    }
    return list;
}

/* A number of levels, which may be None for all; -1 with an exception set. */
static Py_ssize_t read_depth(PyObject *depth)
{
    Py_ssize_t most;
    if (depth == Py_None)
        return PY_SSIZE_T_MAX;
    most = PyLong_AsSsize_t(depth);
    if (most < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a number of levels is not negative");
    return most;
}

PyDoc_STRVAR(texts_doc, "texts(depth)\n--\n\nBids and asks, best first, in the wire's digits.");

static PyObject *book_texts(PyObject *self, PyObject *depth)
{
    Book *book = (Book *)self;
    Py_ssize_t most = read_depth(depth);
    PyObject *bids, *asks, *both = NULL;
    if (most < 0)
        return NULL;
    bids = side_texts(book, &book->sides[0], most);
    asks = bids == NULL ? NULL : side_texts(book, &book->sides[1], most);
    if (asks != NULL)
        both = PyTuple_Pack(2, bids, asks);
    Py_XDECREF(bids);
    Py_XDECREF(asks);
    return both;
}

/* The digits of a number without its point and leading zeros. */
static char *spell_digits(char *into, const char *number, int size)
{
    int begun = 0;
    for (int i = 0; i < size; i++) {
        begun |= number[i] != '0' && number[i] != '.';
        if (begun && number[i] != '.')
            *into++ = number[i];
    }
    return into;
}

static PyObject *side_digits(const Book *book, const Side *side, Py_ssize_t most)
{
    Py_ssize_t count = most < side->count ? most : side->count;
    char *text = PyMem_Malloc((size_t)count * (LONGEST_PRICE + LONGEST) + 1), *end = text;
    PyObject *digits;
    if (text == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = side->count - 1 - i;
        const Level *level = &side->levels[side->places[at]];
        char room[LONGEST_PRICE], *digits_end = room + LONGEST_PRICE;
        char *first = write_digits(digits_end, price_number(book, side->keys[at], level->decimals));
        memcpy(end, first, (size_t)(digits_end - first));
        end += digits_end - first;
        end = spell_digits(end, level->quantity, level->quantity_size);
    }
    digits = text_of((Span){text, end - text});
    PyMem_Free(text);
    return digits;
}

PyDoc_STRVAR(digits_doc, "digits(depth)\n--\n\nThe digits of the best bids and asks, without points"
                         " and leading zeros: price, quantity, price, …");

static PyObject *book_digits(PyObject *self, PyObject *depth)
{
    Book *book = (Book *)self;
    Py_ssize_t most = read_depth(depth);
    PyObject *bids, *asks, *both = NULL;
    if (most < 0)
        return NULL;
    bids = side_digits(book, &book->sides[0], most);
    asks = bids == NULL ? NULL : side_digits(book, &book->sides[1], most);
    if (asks != NULL)
        both = PyTuple_Pack(2, bids, asks);
    Py_XDECREF(bids);
    Py_XDECREF(asks);
    return both;
}

static Py_ssize_t book_length(PyObject *self)
{
    return ((Book *)self)->sides[0].count + ((Book *)self)->sides[1].count;
}

/* ---- the type ---- */

static PyObject *book_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"depth", NULL};
    State *state = PyType_GetModuleState(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Py_ssize_t depth = 0;
    Book *book;
    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "|n", names, &depth))
        return NULL;
    if (depth < 0) {
        PyErr_SetString(PyExc_ValueError, "a depth is not negative");
        return NULL;
    }
    if ((book = (Book *)allocate(type, 0)) == NULL)
        return NULL;
    book->module = Py_XNewRef(PyType_GetModule(type));
    book->state = state;
    book->scale = LEAST_SCALE;
    book->depth = depth;
    return (PyObject *)book;
}

static void book_free(PyObject *self)
{
    Book *book = (Book *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(book->module);
    free_side(&book->sides[0]);
    free_side(&book->sides[1]);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef book_methods[] = {
    {"apply", (PyCFunction)(void (*)(void))book_apply, METH_FASTCALL, apply_doc},
    {"load", (PyCFunction)(void (*)(void))book_load, METH_FASTCALL, load_doc},
    {"forget_beyond", (PyCFunction)(void (*)(void))book_forget, METH_FASTCALL, forget_doc},
    {"crossed", book_crossed, METH_NOARGS, crossed_doc},
    {"texts", book_texts, METH_O, texts_doc},
    {"digits", book_digits, METH_O, digits_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef book_properties[] = {
    {"best_bid", book_best_bid, NULL, "The highest bid as Decimals, if there is one.", NULL},
    {"best_ask", book_best_ask, NULL, "The lowest ask as Decimals, if there is one.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot book_slots[] = {
    {Py_tp_doc, "The levels of a book."},
    {Py_tp_new, book_new},
    {Py_tp_dealloc, book_free},
    {Py_tp_methods, book_methods},
    {Py_tp_getset, book_properties},
    {Py_sq_length, book_length},
    {0, NULL},
};

PyType_Spec book_spec = {
    .name = "penstock.compiled._hot.Book",
    .basicsize = sizeof(Book),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = book_slots,
};
