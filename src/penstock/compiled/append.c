/* Appends events whose keys rise, the usual case: the counterpart of `storage/log/appending.py`.

   The events of a stream are appended together or not at all. They are left to the Python code,
   before anything has changed, if the stream is unknown here, if one of them is not newer than those
   before it, if they were received in several seconds, or if one has an unusual value. */

#include "appended.h"

#define SECOND_NS 1000000000LL

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

/* Finds the stream of every event. */
static void find_streams(const Appender *appender, Append *work)
{
    int are_many = appender->taken >= MANY;
    for (Py_ssize_t i = 0; are_many && i < work->count; i++)
        prefetch_stream(appender, PyList_GetItem(work->events, i));
    for (Py_ssize_t i = 0; i < work->count; i++) {
        Known *known = known_stream(appender, PyList_GetItem(work->events, i));
        work->items[i] = (Item){known, 0, -1, -1, 0};
        if (are_many && known != NULL) {
            prefetch(known->head, HEAD_FIELDS * sizeof(PyObject *));
            prefetch(known->beginning, 2 * CACHE_LINE);
        }
    }
    for (Py_ssize_t i = 0; are_many && i < work->count; i++)
        if (work->items[i].known != NULL)
            prefetch_fields(work->items[i].known->head, appender->head_at, HEAD_FIELDS);
}

/* Assigns every event to the group of its stream, in the order of first appearance. */
static void form_groups(Appender *appender, Append *work)
{
    appender->round++;
    for (Py_ssize_t i = 0; i < work->count; i++) {
        PyObject *event = PyList_GetItem(work->events, i);
        Item *item = &work->items[i];
        Known *known = item->known;
        Group *group;
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

/* Writes the values of a group, each a number and a record, behind those of the groups before. */
static int encode_group(const Append *work, const Group *group, int64_t number)
{
    const Encoder *encoder = group->known->encoder;
    PyObject *beginning = group->known->beginning;
    Span begins = {PyBytes_AsString(beginning), PyBytes_Size(beginning)};
    Output *values = &work->made->values;
    Py_ssize_t before = values->size;
    char digits[NUMBER_SIZE];
    int outcome = ACCEPTED;
    for (Py_ssize_t i = group->first; i >= 0 && outcome == ACCEPTED; i = work->items[i].next) {
        PyObject *event = PyList_GetItem(work->events, i);
        int64_t received_ns = 0;
        eight_bytes(digits, (uint64_t)number++);
        outcome = whole_of(slot_at(event, encoder->received), &received_ns)
                      ? write_bytes(values, digits, sizeof(digits))
                      : REFUSED;
        if (outcome == ACCEPTED)
            outcome = write_record(encoder, values, begins, received_ns, event);
        work->items[i].end = values->size;
    }
    if (outcome != ACCEPTED)
        values->size = before;
    return outcome;
}

/* Adds the group to what was appended, as a part without records. */
static Part *add_part(const Appender *appender, const Append *work, const Group *group,
                      PyObject *head, int64_t number)
{
    Appended *made = work->made;
    Part *part = &made->parts[made->parts_count++];
    *part = (Part){Py_NewRef(slot_at(head, appender->head_at[STREAM])),
                   Py_NewRef(slot_at(head, appender->head_at[TOPIC])),
                   group->known->encoder, group->known->index, number, made->count, 0,
                   group->by_id};
    return part;
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
    Py_ssize_t size = prefix_of(appender, head, PREFIX, entry), start;
    int64_t first, batch_end, second;
    Part *part;
    int outcome;
    if (!whole_at(appender, head, NUMBER, &first)
        || !whole_at(appender, head, group->by_id ? ID_BATCH_END : ARRIVAL_BATCH_END, &batch_end)
        || !whole_at(appender, head, BATCH_SECOND, &second) || first < 0
        || first >= INT64_MAX - group->count - appender->most_in_batch || size < 0
        || slot_at(head, appender->head_at[STREAM]) == NULL
        || slot_at(head, appender->head_at[TOPIC]) == NULL)
        return REFUSED;
    first++;
    start = work->made->values.size;
    if ((outcome = encode_group(work, group, first)) != ACCEPTED)
        return outcome;
    Py_INCREF(head);
    part = add_part(appender, work, group, head, first);
    outcome = move_head(appender, work, head, group, first,
                        first < batch_end && second == group->second);
    for (Py_ssize_t i = group->first; i >= 0 && outcome == ACCEPTED; i = work->items[i].next) {
        const Item *item = &work->items[i];
        const char *end = write_key(entry + size, item->key, group->by_id);
        outcome = put_value(work, (Span){entry, end - entry},
                            (Span){work->made->values.bytes + start, item->end - start});
        if (outcome == ACCEPTED) {
            work->made->records[work->made->count++] = (Record){
                Py_NewRef(PyList_GetItem(work->events, i)), item->key, item->end,
                work->made->parts_count - 1};
            part->count++;
        }
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

/* What was appended, and the events that are left. */
static PyObject *append(Appender *appender, Append *work)
{
    PyObject *left, *both;
    find_streams(appender, work);
    form_groups(appender, work);
    work->made = new_appended(appender, work->slot, work->groups_count, work->count);
    if (work->made == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < work->groups_count; i++) {
        Group *group = &work->groups[i];
        int outcome = group->refused ? REFUSED : append_group(appender, work, group);
        if (outcome == FAILED)
            return NULL;
        group->refused = outcome == REFUSED;
    }
    if ((left = remaining(work)) == NULL)
        return NULL;
    both = PyTuple_Pack(2, (PyObject *)work->made, left);
    Py_DECREF(left);
    return both;
}

const char add_doc[] = "add(events, batch, slot)\n--\n\n"
                       "Append events to a slot: put them into a batch. Returns the records, and"
                       " the events that are left to Python. After an exception the heads are to"
                       " be discarded.";

PyObject *appender_add(PyObject *self, PyObject *args)
{
    Appender *appender = (Appender *)self;
    PyObject *events, *both = NULL;
    Append work = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0};
    if (!PyArg_ParseTuple(args, "OOO", &events, &work.batch, &work.slot)
        || (work.events = PySequence_List(events)) == NULL)
        return NULL;
    work.count = appender->busy ? 0 : PyList_Size(work.events);
    if (!work.count || !appender->taken)
        return Py_BuildValue("[]N", work.events);
    work.put = PyObject_GetAttrString(work.batch, "put");
    work.items = PyMem_Malloc((size_t)work.count * sizeof(Item));
    work.groups = PyMem_Malloc((size_t)work.count * sizeof(Group));
    if (work.put != NULL && (work.items == NULL || work.groups == NULL))
        PyErr_NoMemory();
    else if (work.put != NULL) {
        appender->busy = 1;
        both = append(appender, &work);
        appender->busy = 0;
    }
    Py_XDECREF((PyObject *)work.made);
    Py_XDECREF(work.put);
    Py_DECREF(work.events);
    PyMem_Free(work.items);
    PyMem_Free(work.groups);
    return both;
}
