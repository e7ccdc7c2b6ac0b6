"""Checks the ids that a status lists as seen against the log, which takes precedence.

A status is written after the log is synced, so a power cut removes nothing from the log that a
status lists as seen. A damaged disk may, and so may a folder that is restored from an older copy. A
status contains how many numbers its slot had assigned. If the log has fewer, every id that the
status lists as seen is looked up.
"""

from penstock.collect.status import CollectorStatus, IdsStatus
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream, id_of_key, key_of_id
from penstock.streaming.gaps import IdRuns


def lacks_records(status: CollectorStatus | None, log: LogReader) -> bool:
    """Whether a slot holds fewer records than its status states."""
    if status is None:
        return False
    if status.numbered is None:
        # An older version, which did not sync the log first: the latest record is lost first.
        return not all(_holds_last(ids, status.exchange, log) for ids in status.ids)
    given = (
        each.last_number
        for stats in log.stats()
        if stats.slot == status.slot
        for each in stats.streams
    )
    return sum(given) < status.numbered


def _holds_last(ids: IdsStatus, exchange: str, log: LogReader) -> bool:
    if not ids.seen:
        return True
    last, stream = ids.seen[-1][1], Stream(exchange, ids.channel, ids.symbol)
    return any(True for _ in log.keys_in(stream, [Span(key_of_id(last), key_of_id(last + 1))]))


def claimed(ids: IdsStatus) -> tuple[IdRuns, int]:
    """The ids that a status lists as seen, and the latest one listed as missing (0: none)."""
    runs = IdRuns()
    for first, last in ids.seen:
        runs.add_run(first, last)
    _begin(runs, ids)
    return runs, ids.missing[-1][1] if ids.missing else 0


def found(ids: IdsStatus, stream: Stream, log: LogReader) -> tuple[IdRuns, int]:
    """The ids listed as seen that the log holds, and the latest id listed at all (0: none)."""
    runs = IdRuns()
    spans = [Span(key_of_id(first), key_of_id(last + 1)) for first, last in ids.seen]
    for key in log.keys_in(stream, spans):
        number = id_of_key(key)
        if number is not None:
            runs.add(number)
    _begin(runs, ids)
    return runs, max((last for _, last in (*ids.seen, *ids.missing)), default=0)


def _begin(runs: IdRuns, ids: IdsStatus) -> None:
    firsts = [first for first, _ in (*ids.seen[:1], *ids.missing[:1])]
    if firsts:
        runs.begin_with(min(firsts))
