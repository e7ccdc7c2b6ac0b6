/* Appends events whose keys rise, the usual case: the counterpart of `storage/log/appending.py`.

   The events of a stream are appended together or not at all. They are left to the Python code,
   before anything has changed, if the stream is unknown here, if one of them is not newer than those
   before it, if they were received in several seconds, or if one has an unusual value. */

#include "append.h"

#define SECOND_NS 1000000000LL
#define MOST_KEPT (1 << 20) /* bytes of output that are kept for the next append */

/* ---- which events are appended ---- */

/* Whether an event may follow those of its group. */
static int follows(const Appender *appender, Group *group, PyObject *event, Item *item)
{
    const Encoder *encoder = group->known->encoder;
    PyObject *id = encoder->id < 0 ? Py_None : slot_at(event, encoder->id);
    int by_id = id != Py_None;
    int64_t received_ns;
    if (!whole_of(slot_at(event, encoder->received), &received_ns) || received_ns < 0)
        return 0;
    item->key = received_ns;
    if (by_id && !whole_of(id, &item->key))
        return 0;
    if (!group->count) {
        group->by_id = by_id;
        group->second = received_ns / SECOND_NS;
        group->first_ns = received_ns;
        if (!whole_at(appender, group->known->head, by_id ? HIGHEST_ID : HIGHEST_NS,
                      &group->highest)
            || group->highest < -1)
            return 0;
    }
    if (by_id != group->by_id || item->key <= group->highest
        || received_ns / SECOND_NS != group->second)
        return 0;
    group->highest = item->key;
    if (received_ns < group->first_ns)
        group->first_ns = received_ns;
    return 1;
}

/* Assigns every event to the group of its stream, in the order of first appearance. */
static void form_groups(Appender *appender, Append *work)
{
    appender->round++;
    for (Py_ssize_t i = 0; i < work->count; i++) {
        PyObject *event = PyList_GetItem(work->events, i);
        Known *known = known_stream(appender, event);
        Item *item = &work->items[i];
        Group *group;
        *item = (Item){0, -1, -1, 0};
        if (known == NULL)
            continue;
        if (known->round != appender->round) {
            known->round = appender->round;
            known->group = work->groups_count++;
            work->groups[known->group] = (Group){known, i, i, 0, 0, 0, 0, 0, 0};
        }
        group = &work->groups[item->group = known->group];
        if (!group->refused && !follows(appender, group, event, item))
            group->refused = 1;
        work->items[group->last].next = i == group->last ? -1 : i;
        group->last = i;
        group->count++;
    }
}

/* ---- appending ---- */

/* Writes the values of a group, each a number and a record, one after the other. */
static int encode_group(Appender *appender, const Append *work, const Group *group, int64_t number)
{
    const Encoder *encoder = group->known->encoder;
    PyObject *beginning = group->known->beginning;
    Span begins = {PyBytes_AsString(beginning), PyBytes_Size(beginning)};
    char digits[8];
    int outcome = ACCEPTED;
    appender->output.size = 0;
    for (Py_ssize_t i = group->first; i >= 0 && outcome == ACCEPTED; i = work->items[i].next) {
        PyObject *event = PyList_GetItem(work->events, i);
        int64_t received_ns = 0;
        if (!whole_of(slot_at(event, encoder->received), &received_ns))
            return REFUSED;
        eight_bytes(digits, (uint64_t)number++);
        outcome = write_bytes(&appender->output, digits, sizeof(digits));
        if (outcome == ACCEPTED)
            outcome = write_record(encoder, &appender->output, begins, received_ns, event);
        work->items[i].end = appender->output.size;
    }
    return outcome;
}

/* `Stored(…)` */
static PyObject *new_stored(const Appender *appender, PyObject *fields[STORED_FIELDS])
{
    PyObject *stored = PyObject_CallFunctionObjArgs(appender->copy, appender->stored, NULL);
    for (int i = 0; stored != NULL && i < STORED_FIELDS; i++)
        set_slot(stored, appender->stored_at[i], Py_NewRef(fields[i]));
    return stored;
}

/* Puts a record into the batch, and adds it to those that were stored. */
static int put_record(const Appender *appender, const Append *work, PyObject *head,
                      PyObject *event, Span entry, Py_ssize_t prefix, int64_t number, Span value)
{
    PyObject *of_number = PyLong_FromLongLong(number), *stored = NULL, *done = NULL;
    PyObject *key = PyBytes_FromStringAndSize(entry.at + prefix, entry.size - prefix);
    PyObject *record = PyBytes_FromStringAndSize(value.at + 8, value.size - 8);
    PyObject *place = PyBytes_FromStringAndSize(entry.at, entry.size);
    PyObject *whole = PyBytes_FromStringAndSize(value.at, value.size);
    int outcome = FAILED;
    if (of_number != NULL && key != NULL && record != NULL && place != NULL && whole != NULL) {
        PyObject *fields[] = {slot_at(head, appender->head_at[STREAM]), work->slot, of_number, key,
                              record, slot_at(head, appender->head_at[TOPIC]), event};
        stored = new_stored(appender, fields);
    }
    if (stored != NULL)
        done = PyObject_CallFunctionObjArgs(work->put, place, whole, NULL);
    if (done != NULL && PyList_Append(work->stored, stored) == 0)
        outcome = ACCEPTED;
    Py_XDECREF(of_number);
    Py_XDECREF(key);
    Py_XDECREF(record);
    Py_XDECREF(place);
    Py_XDECREF(whole);
    Py_XDECREF(stored);
    Py_XDECREF(done);
    return outcome;
}

/* Moves the head on to the last record of a group, whose first one has this number. */
static int move_head(const Appender *appender, const Append *work, PyObject *head,
                     const Group *group, int64_t first, int is_open)
{
    PyObject *highest = PyLong_FromLongLong(group->highest);
    PyObject *number = PyLong_FromLongLong(first + group->count - 1);
    if (highest == NULL || number == NULL) {
        Py_XDECREF(highest);
        Py_XDECREF(number);
        return FAILED;
    }
    set_slot(head, appender->head_at[group->by_id ? HIGHEST_ID : HIGHEST_NS], highest);
    set_slot(head, appender->head_at[NUMBER], number);
    return is_open ? ACCEPTED : begin_batch(appender, work, head, group, first);
}

static int append_group(Appender *appender, const Append *work, const Group *group)
{
    PyObject *head = group->known->head;
    char entry[LONGEST_PREFIX + ARRIVAL_BYTES];
    Py_ssize_t size = prefix_of(appender, head, PREFIX, entry), start = 0;
    int64_t first, batch_end, second;
    int outcome;
    if (!whole_at(appender, head, NUMBER, &first)
        || !whole_at(appender, head, group->by_id ? ID_BATCH_END : ARRIVAL_BATCH_END, &batch_end)
        || !whole_at(appender, head, BATCH_SECOND, &second) || first < 0
        || first >= INT64_MAX - group->count - appender->most_in_batch || size < 0
        || slot_at(head, appender->head_at[STREAM]) == NULL
        || slot_at(head, appender->head_at[TOPIC]) == NULL)
        return REFUSED;
    first++;
    if ((outcome = encode_group(appender, work, group, first)) != ACCEPTED)
        return outcome;
    Py_INCREF(head);
    outcome = move_head(appender, work, head, group, first,
                        first < batch_end && second == group->second);
    for (Py_ssize_t i = group->first; i >= 0 && outcome == ACCEPTED; i = work->items[i].next) {
        const Item *item = &work->items[i];
        const char *end = write_key(entry + size, item->key, group->by_id);
        outcome = put_record(appender, work, head, PyList_GetItem(work->events, i),
                             (Span){entry, end - entry}, size, first++,
                             (Span){appender->output.bytes + start, item->end - start});
        start = item->end;
    }
    Py_DECREF(head);
    return outcome;
}

/* The events of all groups that were refused, and those without a group, in their order. */
static PyObject *remaining(const Append *work)
{
    PyObject *left = PyList_New(0);
    for (Py_ssize_t i = 0; left != NULL && i < work->count; i++) {
        Py_ssize_t group = work->items[i].group;
        if ((group < 0 || work->groups[group].refused)
            && PyList_Append(left, PyList_GetItem(work->events, i)) < 0)
            Py_CLEAR(left);
    }
    return left;
}

static PyObject *append(Appender *appender, Append *work)
{
    form_groups(appender, work);
    for (Py_ssize_t i = 0; i < work->groups_count; i++) {
        Group *group = &work->groups[i];
        int outcome = group->refused ? REFUSED : append_group(appender, work, group);
        if (outcome == FAILED)
            return NULL;
        group->refused = outcome == REFUSED;
    }
    return remaining(work);
}

const char add_doc[] = "add(events, batch, slot, stored)\n--\n\n"
                       "Append events to a slot: put them into a batch and add them to those"
                       " stored. Returns those that are left to Python. After an exception the"
                       " heads are to be discarded.";

PyObject *appender_add(PyObject *self, PyObject *args)
{
    Appender *appender = (Appender *)self;
    PyObject *events, *left = NULL;
    Append work = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0};
    if (!PyArg_ParseTuple(args, "OOOO!", &events, &work.batch, &work.slot, &PyList_Type,
                          &work.stored)
        || (work.events = PySequence_List(events)) == NULL)
        return NULL;
    work.count = PyList_Size(work.events);
    if (appender->busy || !appender->taken || !work.count)
        return work.events;
    work.put = PyObject_GetAttrString(work.batch, "put");
    work.items = PyMem_Malloc((size_t)work.count * sizeof(Item));
    work.groups = PyMem_Malloc((size_t)work.count * sizeof(Group));
    if (work.put != NULL && (work.items == NULL || work.groups == NULL))
        PyErr_NoMemory();
    else if (work.put != NULL) {
        appender->busy = 1;
        left = append(appender, &work);
        appender->busy = 0;
    }
    if (appender->output.room > MOST_KEPT) {
        PyMem_Free(appender->output.bytes);
        appender->output = (Output){NULL, 0, 0};
    }
    Py_XDECREF(work.put);
    Py_DECREF(work.events);
    PyMem_Free(work.items);
    PyMem_Free(work.groups);
    return left;
}
