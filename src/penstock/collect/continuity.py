"""Tracks which ids were recorded, and so which are missing.

It is a tap of the recorder and receives only written records, so every id that it lists as seen can
be read back.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from penstock.collect.claims import claimed, found
from penstock.collect.facts import GapFound, RecordsLost
from penstock.collect.status import GapCount, IdsStatus
from penstock.market.channels import DISCONNECTS
from penstock.market.events import AnyEvent, Disconnect
from penstock.storage.log import LogReader, Span, Stored
from penstock.storage.log.keys import Stream, id_of, id_of_key, key_of_id, stream_of
from penstock.streaming.gaps import IdGap, IdRuns
from penstock.telemetry import Listener

_LOST = "lost"
"""The cause of a gap without a marker: the connection was open."""


class Continuity:
    """The ids of every stream with consecutive ids."""

    def __init__(self, channels: Collection[str], tell: Listener) -> None:
        self._channels, self._tell = frozenset(channels), tell
        self._runs: dict[Stream, IdRuns] = {}
        self._latest: dict[Stream, int] = {}
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
        for ids in before:
            stream = Stream(exchange, ids.channel, ids.symbol)
            runs, latest = claimed(ids)
            if doubted:
                was, (runs, latest) = len(runs), found(ids, stream, log)
                self._tell_lost(stream, was - len(runs))
            self._runs[stream] = runs
            if latest:
                self._latest[stream] = latest
        for stream in log.streams():
            if stream.exchange == exchange and stream.channel in self._channels:
                runs = self._runs.setdefault(stream, IdRuns())
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
            runs = self._runs.get(stored.stream)
            if runs is None:
                runs = self._runs[stored.stream] = IdRuns()
            number = id_of_key(stored.key)
            if number is not None:
                if runs.last is not None and number > runs.last + 1:
                    self._gaps[stored.stream.channel, cause] += 1
                    self._tell_gap(stored.stream, IdGap(runs.last + 1, number - 1))
                runs.add(number)

    def recovered(self, events: Sequence[AnyEvent]) -> None:
        """Add events that are in the log; a failed attempt may have written some of them."""
        for event in events:
            stream = stream_of(event)
            number = id_of(event) if stream.channel in self._channels else None
            if number is not None:
                self._runs.setdefault(stream, IdRuns()).add(number)

    def note_latest(self, stream: Stream, latest: int) -> None:
        """Note the latest id on the exchange, so that lost ids at the end count as missing."""
        self._latest[stream] = latest

    def behind(self, stream: Stream) -> bool:
        """Whether the latest id that is known to exist is not recorded yet."""
        last = self.last(stream)
        return last is not None and last < self._latest.get(stream, 0)

    def last(self, stream: Stream) -> int | None:
        """The highest id recorded."""
        runs = self._runs.get(stream)
        return runs.last if runs else None

    def status(self) -> list[IdsStatus]:
        """Seen and missing ids, by stream."""
        return [
            IdsStatus(
                channel=stream.channel,
                symbol=stream.symbol,
                seen=runs.runs(),
                missing=runs.missing(self._latest.get(stream)),
            )
            for stream, runs in self._runs.items()
        ]

    def gaps(self) -> list[GapCount]:
        """Gaps since the start, by channel and cause; without ids, possible gaps."""
        return [
            GapCount(channel=channel, cause=cause, count=count)
            for (channel, cause), count in self._gaps.items()
        ]

    def _mark(self, stored: Stored) -> None:
        """Note why there may be a gap before the next record."""
        marker, (exchange, _, symbol) = stored.event, stored.stream
        assert isinstance(marker, Disconnect), "nothing else is recorded there"
        for channel in marker.channels:
            if channel in self._channels:
                self._absent[Stream(exchange, channel, symbol)] = marker.cause
            else:
                self._gaps[channel, marker.cause] += 1

    def _tell_lost(self, stream: Stream, count: int) -> None:
        if count:
            exchange, channel, symbol = stream
            self._tell(RecordsLost(exchange=exchange, channel=channel, symbol=symbol, count=count))

    def _tell_gap(self, stream: Stream, gap: IdGap) -> None:
        self._tell(
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
