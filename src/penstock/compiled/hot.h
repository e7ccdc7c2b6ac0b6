/* What the parts of the extension share. */

#ifndef PENSTOCK_HOT_H
#define PENSTOCK_HOT_H

#include "scan.h"

/* Rises when Python has to call the extension differently; see __init__.py. */
#define INTERFACE 9
#ifndef SOURCES
#define SOURCES "unknown"
#endif

/* Decimals that were made before, by their text: prices near the touch repeat. A place that is
   taken is taken over, so that their number is bounded. */
#define REMEMBERED 4096
#define LONGEST_REMEMBERED 23

typedef struct {
    PyObject *decimal;
    unsigned char size;
    char text[LONGEST_REMEMBERED];
} Remembered;

/* The same for levels of whole books, as pairs: most of a book is as it was in the one before. */
#define LONGEST_LEVEL 55

typedef struct {
    PyObject *level;
    unsigned char size;
    char text[LONGEST_LEVEL];
} KnownLevel;

typedef struct {
    PyObject *raw;      /* msgspec.Raw */
    PyObject *decimal;  /* decimal.Decimal */
    PyObject *create;   /* create_decimal of a context that rounds nothing: faster than the type */
    PyObject *encoder;  /* the type Encoder */
    PyObject *book;     /* the type Book */
    PyObject *appended; /* the type Appended */
    Remembered *numbers;
    KnownLevel *levels;
} State;

/* The Decimal of a plain number. */
PyObject *decimal_of(State *state, Span number);
/* The Decimal of any text, as `Decimal(text)` makes it; of one that repeats, it is remembered. */
PyObject *number_of(State *state, PyObject *text, int repeats);
/* The levels in a buffer as pairs of Decimal, of a whole book or of changes; None if they are not
   in the usual spelling. */
PyObject *levels_of(State *state, PyObject *raw, int whole);

/* The levels in a buffer: calls `each` for every pair; 0 if all were recognised, 1 if not, -1 with
   an exception set. */
typedef int (*PairFunction)(void *context, Span price, Span quantity);
int walk_pairs(const char *at, Py_ssize_t size, PairFunction each, void *context);

PyObject *text_of(Span span);
/* (price, quantity) as Decimals, or as texts if `state` is NULL. */
PyObject *level_of(State *state, Span price, Span quantity);

/* Of a `Book`: as its methods `apply` and `crossed`. 0 if it was changed, 1 if not, -1 with an
   exception set. */
int change_book(PyObject *book, PyObject *bids, PyObject *asks);
int has_crossed(PyObject *book);
/* Prefetches its best levels; the object itself must be there. */
void prefetch_best(PyObject *book);
#define BOOK_BYTES 160 /* of the object, without its levels */

#define MOST_FIELDS 32

/* Where an object has fields, found by their descriptors; spoils the object. Returns how many, or
   -1 with an exception set. */
Py_ssize_t find_offsets(PyObject *sample, PyObject *descriptors, Py_ssize_t most,
                        Py_ssize_t *offsets);
/* The class of an object that has just these fields, and where; NULL with an exception set. */
PyObject *probe(PyObject *sample, PyObject *descriptors, Py_ssize_t count, Py_ssize_t *offsets);

/* Borrowed; NULL if it was never set. */
static inline PyObject *slot_at(PyObject *object, Py_ssize_t offset)
{
    return *(PyObject **)((char *)object + offset);
}

/* Takes the reference to the value. */
static inline void set_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    PyObject **slot = (PyObject **)((char *)object + offset), *before = *slot;
    *slot = value;
    Py_XDECREF(before);
}

/* Of so many streams or books each has a record or two in a batch, and what is needed of them is in
   no cache any more. Where it is asked for in advance, of all of them at once, it is there in time;
   else each takes several waits for memory, one after the other. */
#define MANY 100

#define CACHE_LINE 64

static inline void prefetch(const void *from, size_t size)
{
    for (size_t at = 0; at < size; at += CACHE_LINE)
        __builtin_prefetch((const char *)from + at);
}

/* Prefetches the values of fields; the object itself must be there. */
static inline void prefetch_fields(PyObject *object, const Py_ssize_t *offsets, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        __builtin_prefetch(slot_at(object, offsets[i]));
}

/* The value of an int; 0 if it has more than 64 bits, or is none. */
int whole_of(PyObject *value, int64_t *into);

/* Handles an object by what a dict has for it: 1; 0 if that is left to Python; or -1 with an
   exception set. */
typedef int (*HandleFunction)(const void *self, PyObject *dict, PyObject *object);
/* Handles an object, or calls a function with it if it is left to Python: 1, or -1. */
int handle_or_pass(const void *self, PyObject *dict, PyObject *object, PyObject *otherwise,
                   HandleFunction handle);
/* The same for each object of a list, in order: 0, or -1. */
int handle_list(const void *self, PyObject *objects, PyObject *dict, PyObject *otherwise,
                HandleFunction handle);

/* Bytes that are being written; freed with PyMem_Free. */
typedef struct {
    char *bytes;
    Py_ssize_t size, room;
} Output;

/* How the events of one class are encoded. */
typedef struct {
    PyObject_HEAD
    PyObject *kind, *raw;                           /* its class, and msgspec.Raw */
    PyObject *plan;                                 /* keeps names and defaults */
    Py_ssize_t exchange, symbol, received, id;      /* offsets; of the id, -1 if there is none */
    Py_ssize_t source;                              /* -1 if there is none */
    Py_ssize_t count, offsets[MOST_FIELDS];         /* of the other fields, in order */
    Span names[MOST_FIELDS];                        /* `,"price":` */
    PyObject *omitted[MOST_FIELDS];                 /* with this value a field is left out; or NULL */
} Encoder;

/* 1, or -1 without memory. */
int write_bytes(Output *into, const char *from, Py_ssize_t size);
/* The record of an event that begins with `beginning` and the time of receipt: 1; 0 if msgspec has
   to make it, and then the output has bytes to be discarded; or -1 with an exception set. */
int write_record(const Encoder *encoder, Output *into, Span beginning, int64_t received_at_ns,
                 PyObject *event);

extern PyType_Spec number_spec;
extern PyType_Spec levels_spec;
extern PyType_Spec reader_spec;
extern PyType_Spec book_spec;
extern PyType_Spec updater_spec;
extern PyType_Spec gatherer_spec;
extern PyType_Spec latest_spec;
extern PyType_Spec encoder_spec;
extern PyType_Spec appender_spec;
extern PyType_Spec appended_spec;
extern PyType_Spec relay_spec;
extern PyType_Spec incoming_spec;
extern PyType_Spec packer_spec;
extern PyType_Spec frames_spec;

#endif
