/* What the parts of the extension share. */

#ifndef PENSTOCK_HOT_H
#define PENSTOCK_HOT_H

#include "scan.h"

/* Rises when Python has to call the extension differently; see __init__.py. */
#define INTERFACE 3
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

extern PyType_Spec number_spec;
extern PyType_Spec levels_spec;
extern PyType_Spec reader_spec;
extern PyType_Spec book_spec;
extern PyType_Spec relay_spec;
extern PyType_Spec incoming_spec;

#endif
