"""Where replayed records come from: the log, or the log and the lake."""

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from penstock.errors import MalformedSymbol, NoData, UnknownStream
from penstock.market.symbol import Symbol
from penstock.storage.log import ReceivedPart
from penstock.storage.log.keys import Stream


class RecordSource(Protocol):
    """Records by receive time. A ``LogReader`` is one, and so is ``dataset.received.LogAndLake``.

    A key that is held several times is one record, and a record is the same bytes at every read.
    """

    def streams(self) -> list[Stream]: ...

    def received(
        self, streams: Collection[Stream], since_ns: int, until_ns: int, most: int
    ) -> ReceivedPart:
        """The records of some streams that were received in [since, until), in no fixed order.

        Or those of a shorter range; always, if they are more than ``most`` in several seconds.
        """
        ...

    def next_received_ns(self, streams: Collection[Stream], since_ns: int) -> int | None:
        """A time at or after ``since_ns``, and none of these records was received in between.

        None: there is no later record.
        """
        ...

    def end_ns(self, streams: Collection[Stream]) -> int | None:
        """A time after every record of these streams; None without records."""
        ...

    def close(self) -> None: ...


def select(known: Iterable[Stream], patterns: Sequence[str]) -> list[Stream]:
    """The streams that match any of the patterns; all of them without patterns.

    A pattern is a stream's name, with ``*`` for any text, or a prefix that ends with a dot. The
    symbol may have any spelling.

    Raises:
        NoData: there are no streams at all.
        UnknownStream: no stream matches one of the patterns.
    """
    by_name = {str(stream): stream for stream in known}
    if not by_name:
        raise NoData("There is nothing to replay: no stream was recorded.")
    found: set[Stream] = set()
    for pattern in patterns or ("*",):
        spelled = _spelled(pattern)
        matching = {name for name in by_name if fnmatchcase(name, spelled)}
        if not matching:
            raise UnknownStream(pattern, by_name)
        found.update(map(by_name.__getitem__, matching))
    return sorted(found)


def nothing_received(streams: Sequence[Stream]) -> NoData:
    """The error that these streams have no records in a range."""
    names = " ".join(map(str, streams[:3])) + (" …" if len(streams) > 3 else "")
    return NoData(f"Nothing of {names} was received in that range. See: penstock log stats")


def _spelled(pattern: str) -> str:
    beginning, dot, symbol = pattern.rpartition(".")
    if not symbol:
        return f"{pattern}*"
    # fnmatch gives brackets a meaning; names have none.
    literal = pattern.replace("[", "[[]")
    if not dot or "*" in symbol:
        return literal
    try:
        return f"{beginning}.{Symbol.parse(symbol).slug}"
    except MalformedSymbol:
        return literal
