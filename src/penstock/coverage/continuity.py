"""Tracks which ids were recorded, and so which are missing.

It is a tap of the recorder and receives only written records, so every id that it lists as seen can
be read back.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from penstock.coverage.facts import GapFound, RecordsLost
from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.stored import GapCount, IdsStatus, StreamIds, claimed, confirmed
from penstock.market.channels import DISCONNECTS
from penstock.market.events import Disconnect, Event
from penstock.storage.log import LogReader, Span, Stored
from penstock.storage.log.keys import Stream, id_of, id_of_key, key_of_id, stream_of
from penstock.telemetry import Listener

_LOST = "lost"
"""The cause of a gap without a marker: the connection was open."""


class Continuity:
    """The ids of every stream with consecutive ids."""

    def __init__(self, channels: Collection[str], emit: Listener) -> None:
        self._channels, self._emit = frozenset(channels), emit
        self._ids: dict[Stream, StreamIds] = {}
        self._latest: dict[Stream, int] = {}
        """The latest ids of streams without a record yet."""
        self._absent: dict[Stream, str] = {}
        """Streams with a marker of a possible gap, and its cause, until their next record."""
        self._gaps: Counter[tuple[str, str]] = Counter()
        """By channel and cause."""

    def resume(
        self, exchange: str, before: Iterable[IdsStatus], log: LogReader, *, doubted: bool = False
    ) -> None:
        """Restore the ids of a previous status, and those recorded after it was written.

        The previous collector may have been killed in between, and records come in any order. So
        all ids that the status does not list as seen are looked up in the log: below, between and
        above its runs. With ``doubted`` (the log lacks records that the status lists) the seen ids
        are looked up too, and those not found are missing.
        """
        for stored in before:
            stream = Stream(exchange, stored.channel, stored.symbol)
            ids = claimed(stored)
            if doubted:
                was, ids = len(ids.runs), confirmed(stored, stream, log)
                self._emit_lost(stream, was - len(ids.runs))
            self._ids[stream] = ids
        for stream in log.streams():
            if stream.exchange == exchange and stream.channel in self._channels:
                runs = self._ids_of(stream).runs
                for key in log.keys_in(stream, _unseen(runs)):
                    number = id_of_key(key)
                    if number is not None:
                        runs.add(number)

    def __call__(self, recorded: Sequence[Stored]) -> None:
        """Update from newly recorded events."""
        for stored in recorded:
            if stored.stream.channel not in self._channels:
                if stored.stream.channel == DISCONNECTS.name:
                    self._mark(stored)
                continue
            cause = self._absent.pop(stored.stream, _LOST) if self._absent else _LOST
            ids = self._ids.get(stored.stream)
            runs = (self._ids_of(stored.stream) if ids is None else ids).runs
            number = id_of_key(stored.key)
            if number is not None:
                if runs.last is not None and number > runs.last + 1:
                    self._gaps[stored.stream.channel, cause] += 1
                    self._emit_gap(stored.stream, IdGap(runs.last + 1, number - 1))
                runs.add(number)

    def recovered(self, events: Sequence[Event]) -> None:
        """Add events that are in the log; a failed attempt may have written some of them."""
        for event in events:
            stream = stream_of(event)
            number = id_of(event) if stream.channel in self._channels else None
            if number is not None:
                self._ids_of(stream).runs.add(number)

    def note_latest(self, stream: Stream, latest: int) -> None:
        """Note the latest id on the exchange, so that lost ids at the end count as missing."""
        if stream in self._ids:
            self._ids[stream].latest = latest
        else:
            self._latest[stream] = latest

    def behind(self, stream: Stream) -> bool:
        """Whether the latest id that is known to exist is not recorded yet."""
        ids = self._ids.get(stream)
        if ids is None or ids.latest is None or ids.runs.last is None:
            return False
        return ids.runs.last < ids.latest

    def last(self, stream: Stream) -> int | None:
        """The highest id recorded."""
        ids = self._ids.get(stream)
        return ids.runs.last if ids is not None else None

    def status(self) -> list[IdsStatus]:
        """Seen and missing ids, by stream."""
        return [ids.stored(stream) for stream, ids in self._ids.items()]

    def gaps(self) -> list[GapCount]:
        """Gaps since the start, by channel and cause; without ids, possible gaps."""
        return [
            GapCount(channel=channel, cause=cause, count=count)
            for (channel, cause), count in self._gaps.items()
        ]

    def _ids_of(self, stream: Stream) -> StreamIds:
        ids = self._ids.get(stream)
        if ids is None:
            ids = self._ids[stream] = StreamIds()
            ids.latest = self._latest.pop(stream, None)
        return ids

    def _mark(self, stored: Stored) -> None:
        """Note why there may be a gap before the next record."""
        marker, (exchange, _, symbol) = stored.event, stored.stream
        assert isinstance(marker, Disconnect), "nothing else is recorded there"
        for channel in marker.channels:
            if channel in self._channels:
                self._absent[Stream(exchange, channel, symbol)] = marker.cause
            else:
                self._gaps[channel, marker.cause] += 1

    def _emit_lost(self, stream: Stream, count: int) -> None:
        if count:
            exchange, channel, symbol = stream
            self._emit(RecordsLost(exchange=exchange, channel=channel, symbol=symbol, count=count))

    def _emit_gap(self, stream: Stream, gap: IdGap) -> None:
        self._emit(
            GapFound(
                exchange=stream.exchange,
                channel=stream.channel,
                symbol=stream.symbol,
                first=gap.first,
                last=gap.last,
            )
        )


def _unseen(runs: IdRuns) -> list[Span]:
    """All key ranges outside the runs."""
    if runs.first is None or runs.last is None:
        return [Span()]
    below, above = Span(end=key_of_id(runs.first)), Span(first=key_of_id(runs.last + 1))
    holes = [Span(key_of_id(gap.first), key_of_id(gap.last + 1)) for gap in runs.gaps()]
    return [below, *holes, above]
