/* What appending events needs to know of their streams. */

#ifndef PENSTOCK_APPEND_H
#define PENSTOCK_APPEND_H

#include "hot.h"

#define MOST_KINDS 32 /* classes of events */

/* The fields of a head, and those of Stored, in the order in which Python names them. */
enum { HIGHEST_ID, HIGHEST_NS, NUMBER, ID_BATCH_END, ARRIVAL_BATCH_END, BATCH_SECOND, PREFIX, STREAM,
       TOPIC, HEAD_FIELDS };
enum { OF_STREAM, OF_SLOT, OF_NUMBER, OF_KEY, OF_RECORD, OF_TOPIC, OF_EVENT, STORED_FIELDS };

/* A stream, by what its events have in common. */
typedef struct {
    Encoder *encoder; /* NULL in a free place */
    PyObject *symbol, *exchange, *head, *beginning;
    uint64_t hash;
    uint64_t round;   /* the last append with events of it */
    Py_ssize_t group; /* its group in that append */
} Known;

typedef struct {
    PyObject_HEAD
    PyObject *stored, *copy;  /* a Stored to copy, and what copies it */
    PyObject *head_kind, *begin_batch;
    Py_ssize_t stored_at[STORED_FIELDS], head_at[HEAD_FIELDS];
    Encoder *encoders[MOST_KINDS];
    Py_ssize_t kinds;
    Known *known;             /* by hash; a power of two of places, at most half of them taken */
    Py_ssize_t places, taken;
    uint64_t round;
    int busy;
    Output output;
} Appender;

/* The stream of an event, if it is known. */
Known *known_stream(const Appender *appender, PyObject *event);

extern const char add_doc[];
PyObject *appender_add(PyObject *self, PyObject *args);

#endif
