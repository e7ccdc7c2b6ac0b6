/* What the parts of the extension share. */

#ifndef PENSTOCK_HOT_H
#define PENSTOCK_HOT_H

#include "scan.h"

/* Rises when Python has to call the extension differently; see __init__.py. */
#define INTERFACE 1
#ifndef SOURCES
#define SOURCES "unknown"
#endif

typedef struct {
    PyObject *raw;      /* msgspec.Raw */
    PyObject *decimal;  /* decimal.Decimal */
} State;

/* The levels in a buffer: calls `each` for every pair; 0 if all were recognised, 1 if not, -1 with
   an exception set. */
typedef int (*PairFunction)(void *context, Span price, Span quantity);
int walk_pairs(const char *at, Py_ssize_t size, PairFunction each, void *context);

PyObject *text_of(Span span);
/* (price, quantity), each converted by `convert`, or as texts if that is NULL. */
PyObject *level_of(PyObject *convert, Span price, Span quantity);

extern PyType_Spec reader_spec;
extern PyType_Spec book_spec;

#endif
