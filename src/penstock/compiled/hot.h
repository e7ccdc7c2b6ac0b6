/* What the parts of the extension share. */

#ifndef PENSTOCK_HOT_H
#define PENSTOCK_HOT_H

#include "scan.h"

/* Rises when Python has to call the extension differently; see __init__.py. */
#define INTERFACE 1
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

typedef struct {
    PyObject *raw;      /* msgspec.Raw */
    PyObject *decimal;  /* decimal.Decimal */
    PyObject *create;   /* create_decimal of a context that rounds nothing: faster than the type */
    Remembered *numbers;
} State;

/* The Decimal of a plain number. */
PyObject *decimal_of(State *state, Span number);

/* The levels in a buffer: calls `each` for every pair; 0 if all were recognised, 1 if not, -1 with
   an exception set. */
typedef int (*PairFunction)(void *context, Span price, Span quantity);
int walk_pairs(const char *at, Py_ssize_t size, PairFunction each, void *context);

PyObject *text_of(Span span);
/* (price, quantity) as Decimals, or as texts if `state` is NULL. */
PyObject *level_of(State *state, Span price, Span quantity);

extern PyType_Spec reader_spec;
extern PyType_Spec book_spec;

#endif
