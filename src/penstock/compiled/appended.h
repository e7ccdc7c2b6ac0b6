/* Records that were appended, see appended.c. */

#ifndef PENSTOCK_APPENDED_H
#define PENSTOCK_APPENDED_H

#include "append.h"

#define NUMBER_SIZE 8 /* bytes before each record: its number */

typedef struct {
    PyObject *event;
    int64_t key;     /* its id, or its time of receipt */
    Py_ssize_t end;  /* of its value among all */
    Py_ssize_t part; /* the part that it belongs to */
} Record;

/* Records of one stream, which follow each other. */
typedef struct {
    PyObject *stream, *topic;
    const Encoder *encoder;  /* of its events; kept by the appender */
    Py_ssize_t index;        /* of the stream, among all that the appender knows */
    int64_t number;          /* of the first one */
    Py_ssize_t first, count; /* among all records */
    int by_id;
} Part;

typedef struct Appended {
    PyObject_HEAD
    Appender *appender;
    PyObject *slot;
    Part *parts;
    Record *records;
    Py_ssize_t parts_count, count;
    Output values; /* each a number and a record */
} Appended;

/* Room for so many records of so many streams; NULL with an exception set. */
Appended *new_appended(Appender *appender, PyObject *slot, Py_ssize_t parts, Py_ssize_t records);
/* The record as a Stored; NULL with an exception set. */
PyObject *stored_of(const Appended *appended, Py_ssize_t index);

/* The encoded record, without its number. */
static inline Span record_of(const Appended *appended, Py_ssize_t index)
{
    Py_ssize_t start = index ? appended->records[index - 1].end : 0;
    const char *at = appended->values.bytes + start + NUMBER_SIZE;
    return (Span){at, appended->records[index].end - start - NUMBER_SIZE};
}

/* The same object if these are records that were appended, as Stored of this class; or NULL. */
Appended *as_appended(PyObject *records, const State *state, PyObject *kind);

#endif
