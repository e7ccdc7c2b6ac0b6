/* Opens batches of records: the counterpart of `StreamHead.begin_batch`, which does what is rare. */

#include "append.h"

#define OPEN_BATCH_BYTES (21 + 2 * ARRIVAL_BYTES)

void eight_bytes(char *into, uint64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        into[i] = (char)(number & 0xFF);
}

char *write_key(char *into, int64_t key, int by_id)
{
    if (!by_id) {
        *into++ = (char)FIRST_ARRIVAL;
        memset(into + ID_BYTES, 0, ARRIVAL_BYTES - ID_BYTES - 1);
    }
    eight_bytes(into, (uint64_t)key);
    return into + (by_id ? ID_BYTES : ARRIVAL_BYTES - 1);
}

int put_value(const Append *work, Span key, Span value)
{
    PyObject *of_key = PyBytes_FromStringAndSize(key.at, key.size), *done = NULL;
    PyObject *of_value = PyBytes_FromStringAndSize(value.at, value.size);
    if (of_key != NULL && of_value != NULL)
        done = PyObject_CallFunctionObjArgs(work->put, of_key, of_value, NULL);
    Py_XDECREF(of_key);
    Py_XDECREF(of_value);
    Py_XDECREF(done);
    return done == NULL ? FAILED : ACCEPTED;
}

Py_ssize_t prefix_of(const Appender *appender, PyObject *head, int field, char *into)
{
    PyObject *prefix = slot_at(head, appender->head_at[field]);
    Py_ssize_t size = prefix == NULL || !PyBytes_Check(prefix) ? -1 : PyBytes_Size(prefix);
    if (size < 0 || size > LONGEST_PREFIX)
        return -1;
    memcpy(into, PyBytes_AsString(prefix), (size_t)size);
    return size;
}

/* The entry of an open batch, as `keys.write_batch` makes it: no number of records, the time of
   receipt and the key twice each; and one in the index of times for a new second. */
static int put_batch(const Appender *appender, const Append *work, PyObject *head,
                     const Group *group, Span key, int64_t number, int is_new_second)
{
    char entry[LONGEST_PREFIX + 8], time[LONGEST_PREFIX + 16], value[OPEN_BATCH_BYTES] = {0};
    Py_ssize_t size = prefix_of(appender, head, NUMBERS_PREFIX, entry);
    Py_ssize_t time_size = prefix_of(appender, head, TIMES_PREFIX, time);
    int outcome;
    if (size < 0 || time_size < 0) { /* `continues` has seen that they are not */
        PyErr_SetString(PyExc_RuntimeError, "a head has no prefixes");
        return FAILED;
    }
    eight_bytes(entry + size, (uint64_t)number);
    eight_bytes(value + 4, (uint64_t)group->first_ns);
    eight_bytes(value + 12, (uint64_t)group->first_ns);
    value[20] = (char)key.size;
    memcpy(value + 21, key.at, (size_t)key.size);
    memcpy(value + 21 + key.size, key.at, (size_t)key.size);
    outcome = put_value(work, (Span){entry, size + 8}, (Span){value, 21 + 2 * key.size});
    if (outcome == FAILED || !is_new_second)
        return outcome;
    eight_bytes(time + time_size, (uint64_t)group->second);
    eight_bytes(time + time_size + 8, (uint64_t)number);
    return put_value(work, (Span){time, time_size + 16}, (Span){value, 0});
}

/* Whether a batch of this kind can follow the one that is open without closing it. */
static int continues(const Appender *appender, PyObject *head, const Group *group, int64_t *second)
{
    PyObject *batch = slot_at(head, appender->head_at[BATCH]), *key;
    char unused[LONGEST_PREFIX];
    if (batch == NULL || !whole_at(appender, head, SECOND, second)
        || prefix_of(appender, head, NUMBERS_PREFIX, unused) < 0
        || prefix_of(appender, head, TIMES_PREFIX, unused) < 0)
        return 0;
    if (batch == Py_None)
        return 1;
    key = PyTuple_CheckExact(batch) && PyTuple_Size(batch) == 3 ? PyTuple_GetItem(batch, 1) : NULL;
    return key != NULL && PyBytes_Check(key) && PyBytes_Size(key) > 0
           && ((unsigned char)*PyBytes_AsString(key) < FIRST_ARRIVAL) == group->by_id;
}

int begin_batch(const Appender *appender, const Append *work, PyObject *head, const Group *group,
                int64_t number)
{
    char bytes[ARRIVAL_BYTES], *end = write_key(bytes, work->items[group->first].key, group->by_id);
    PyObject *key = PyBytes_FromStringAndSize(bytes, end - bytes);
    PyObject *first = PyLong_FromLongLong(number), *at_ns = PyLong_FromLongLong(group->first_ns);
    PyObject *batch_end = PyLong_FromLongLong(number + appender->most_in_batch);
    PyObject *closed = PyLong_FromLong(0), *second = PyLong_FromLongLong(group->second);
    PyObject *batch = PyTuple_New(3), *done = NULL;
    int64_t last_second = 0;
    int outcome = FAILED;
    if (key == NULL || first == NULL || at_ns == NULL || batch_end == NULL || closed == NULL
        || second == NULL || batch == NULL)
        goto end;
    if (!continues(appender, head, group, &last_second)) {
        done = PyObject_CallMethodObjArgs(head, appender->begin_batch, first, key, at_ns,
                                          work->batch, NULL);
        outcome = done == NULL ? FAILED : ACCEPTED;
        goto end;
    }
    PyTuple_SetItem(batch, 0, Py_NewRef(first)); /* cannot fail on a new tuple */
    PyTuple_SetItem(batch, 1, Py_NewRef(key));
    PyTuple_SetItem(batch, 2, Py_NewRef(at_ns));
    set_slot(head, appender->head_at[BATCH], Py_NewRef(batch));
    set_slot(head, appender->head_at[ID_BATCH_END], Py_NewRef(group->by_id ? batch_end : closed));
    set_slot(head, appender->head_at[ARRIVAL_BATCH_END],
             Py_NewRef(group->by_id ? closed : batch_end));
    set_slot(head, appender->head_at[BATCH_SECOND], Py_NewRef(second));
    set_slot(head, appender->head_at[SECOND], Py_NewRef(second));
    outcome = put_batch(appender, work, head, group, (Span){bytes, end - bytes}, number,
                        group->second != last_second);
end:
    Py_XDECREF(key);
    Py_XDECREF(first);
    Py_XDECREF(at_ns);
    Py_XDECREF(batch_end);
    Py_XDECREF(closed);
    Py_XDECREF(second);
    Py_XDECREF(batch);
    Py_XDECREF(done);
    return outcome;
}
