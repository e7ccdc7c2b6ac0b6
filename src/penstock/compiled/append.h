/* What appending events needs to know of their streams. */

#ifndef PENSTOCK_APPEND_H
#define PENSTOCK_APPEND_H

#include "hot.h"

#define MOST_KINDS 32 /* classes of events */
#define LONGEST_PREFIX 16
#define ID_BYTES 8
#define ARRIVAL_BYTES 13
#define FIRST_ARRIVAL 0xFE

enum { ACCEPTED = 1, REFUSED = 0, FAILED = -1 };

/* The fields of a head, and those of Stored, in the order in which Python names them. */
enum { HIGHEST_ID, HIGHEST_NS, NUMBER, ID_BATCH_END, ARRIVAL_BATCH_END, BATCH_SECOND, PREFIX, STREAM,
       TOPIC, BATCH, SECOND, NUMBERS_PREFIX, TIMES_PREFIX, HEAD_FIELDS };
enum { OF_STREAM, OF_SLOT, OF_NUMBER, OF_KEY, OF_RECORD, OF_TOPIC, OF_EVENT, STORED_FIELDS };

/* A stream, by what its events have in common. */
typedef struct {
    Encoder *encoder; /* NULL in a free place */
    PyObject *symbol, *exchange, *head, *beginning;
    uint64_t hash;
    uint64_t round;   /* the last append with events of it */
    Py_ssize_t group; /* its group in that append */
    Py_ssize_t index; /* among all known streams */
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
    Py_ssize_t most_in_batch;
    int busy;
    Output output;
} Appender;

/* An event of an append. */
typedef struct {
    Known *known;     /* its stream; NULL if that is not known */
    int64_t key;      /* its id, or its time of receipt */
    Py_ssize_t group; /* -1: its stream is not known */
    Py_ssize_t next;  /* the next event of the group; -1 for the last */
    Py_ssize_t end;   /* of its value in the output */
} Item;

/* The events of one stream. */
typedef struct {
    Known *known;
    Py_ssize_t first, last, count;
    int64_t highest; /* the key so far */
    int64_t first_ns, second;
    int by_id, refused;
} Group;

struct Appended;

typedef struct {
    PyObject *events, *batch, *put, *slot;
    struct Appended *made;
    Item *items;
    Group *groups;
    Py_ssize_t count, groups_count;
} Append;

/* A field of a head that is an int; 0 if it has more than 64 bits. */
static inline int whole_at(const Appender *appender, PyObject *head, int field, int64_t *into)
{
    return whole_of(slot_at(head, appender->head_at[field]), into);
}

void eight_bytes(char *into, uint64_t number);
/* The key of a record, behind the prefix of its stream; returns the end. */
char *write_key(char *into, int64_t key, int by_id);
/* `batch.put(key, value)`: 1 or -1. */
int put_value(const Append *work, Span key, Span value);
/* The bytes of a prefix in a head, copied; -1 if they are not as expected. */
Py_ssize_t prefix_of(const Appender *appender, PyObject *head, int field, char *into);
/* `head.begin_batch(number, key, first_ns, batch)` for the first record of a group: 1 or -1. */
int begin_batch(const Appender *appender, const Append *work, PyObject *head, const Group *group,
                int64_t number);

/* The stream of an event, if it is known. */
Known *known_stream(const Appender *appender, PyObject *event);
/* Prefetches what `known_stream` reads. */
void prefetch_stream(const Appender *appender, PyObject *event);

extern const char add_doc[];
PyObject *appender_add(PyObject *self, PyObject *args);

#endif
