"""Liveness: whether a stream that says nothing has nothing to say.

Quiet is not dead, so no silence is long in itself: it is long for a stream that usually speaks. How
often that is, is learned from what arrives. If arrivals came by chance, a silence would last longer
than ``ln(86,400 λ) / λ`` seconds once a day; that long a stream may be silent, but ten seconds at
least. Then somebody should look, by another way, whether there was anything to say.

Markets are not chance, so three things keep a model this simple from crying wolf. What comes within
a tenth of a second is one arrival, so that one order that fills a hundred others does not look like
a hundred a second. The rate is that of the last minutes, or of the last thirty arrivals where those
took longer, and less a standard deviation. And a silence that a look found to be real doubles the
patience: for the rest of that silence each time, and for some hours once.
"""

from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from math import e, exp, log, sqrt
from typing import Generic, NamedTuple, TypeVar

SECOND_NS = 1_000_000_000
LEAST_S = 10.0
FIRST_S = 60.0
_DAY_S = 86_400.0
_LONGEST_S = _DAY_S / e
"""What the formula comes to for the slowest stream it holds for; slower ones wait as long."""
ONE_ARRIVAL_NS = SECOND_NS // 10
"""What comes within this is one arrival."""
_MEMORY_S = 300.0
_MEMORY_ARRIVALS = 30.0
_KNOWN_ARRIVALS = 5
"""After fewer a rate is a guess, and the stream is judged like one that never spoke."""
_TOLERANCE_HALVES_S = 6 * 3600.0
_MOST_TOLERANCE = 64.0

S = TypeVar("S", bound=Hashable)


class Silence(NamedTuple, Generic[S]):
    """A stream that has been silent for longer than is usual for it."""

    stream: S
    since_ns: int
    """When it last spoke, or was asked for."""
    rate: float
    """Arrivals a second that were usual; 0 where that is not known."""
    probes: int
    """How often this silence was found to be real before."""


class _Watched:
    """What is known of one stream."""

    __slots__ = (
        "arrivals",
        "counted_ns",
        "due_ns",
        "from_ns",
        "last_ns",
        "next_arrival_ns",
        "probes",
        "queued_ns",
        "span_s",
        "tolerance",
        "tolerance_set_ns",
        "wait_ns",
        "weight",
    )

    def __init__(self, at_ns: int) -> None:
        self.arrivals = 0
        self.weight = 0.0
        """Arrivals of late: each counts the less the longer ago it was."""
        self.span_s = 0.0
        """The seconds they came in, counted in the same way."""
        self.counted_ns = at_ns
        """Up to when both are counted."""
        self.last_ns = at_ns
        """When it last spoke, or was asked for."""
        self.from_ns = at_ns
        """From when the wait runs: that, or when somebody last looked."""
        self.wait_ns = 0
        self.due_ns = 0
        self.queued_ns = 0
        """When the queue will come across it, never later than it is due; 0 while it is suspect."""
        self.next_arrival_ns = at_ns
        """What comes sooner belongs to the arrival before it."""
        self.probes = 0
        self.tolerance = 1.0
        self.tolerance_set_ns = at_ns

    @property
    def rate(self) -> float:
        """Arrivals a second, less a standard deviation; 0 while it is not known."""
        if self.arrivals < _KNOWN_ARRIVALS or not self.span_s:
            return 0.0
        return max(0.0, self.weight - sqrt(self.weight)) / self.span_s

    def count(self, at_ns: int, arrivals: int) -> None:
        """Let time pass, at whose end there were so many arrivals."""
        passed_s = max(0, at_ns - self.counted_ns) / SECOND_NS
        slow = self.weight > 0 and self.span_s * _MEMORY_ARRIVALS / self.weight
        memory_s = max(_MEMORY_S, slow)
        kept = exp(-passed_s / memory_s)
        self.weight = self.weight * kept + arrivals
        self.span_s = self.span_s * kept + memory_s * (1 - kept)
        self.counted_ns = at_ns
        self.arrivals += arrivals

    def tolerance_at(self, at_ns: int) -> float:
        halves = max(0, at_ns - self.tolerance_set_ns) / SECOND_NS / _TOLERANCE_HALVES_S
        return 1.0 + (self.tolerance - 1.0) * exp(-log(2) * halves)


class Liveness(Generic[S]):
    """The streams somebody waits for, and which of them have been silent for too long.

    Whoever is told of a silence has to say what came of it: ``clear``, ``postpone`` or ``confirm``;
    until then it is not told again. To hear of it in time, ask at ``next_ns``, which may come
    nearer whenever something is heard, but never nearer than ``least_s``.
    """

    def __init__(self, *, least_s: float = LEAST_S, first_s: float = FIRST_S) -> None:
        """``least_s``: no shorter silence counts; ``first_s``: where the usual is not known."""
        self._least_s, self._first_s = least_s, first_s
        self._watched: dict[S, _Watched] = {}
        self._queue: list[tuple[int, int, S, _Watched]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._watched)

    def __iter__(self) -> Iterator[S]:
        return iter(self._watched)

    def __contains__(self, stream: object) -> bool:
        return stream in self._watched

    def expect(self, streams: Iterable[S], at_ns: int) -> None:
        """These were asked for; one that is waited for already goes on as it was."""
        for stream in streams:
            if stream not in self._watched:
                watched = self._watched[stream] = _Watched(at_ns)
                self._plan(stream, watched)

    def forget(self, stream: S) -> None:
        """Nobody waits for it any more."""
        self._watched.pop(stream, None)

    def heard(self, stream: S, last_at_ns: int) -> None:
        """It spoke, last at this instant; to be told at least every tenth of a second or so."""
        watched = self._watched.get(stream)
        if watched is None or last_at_ns < watched.last_ns:
            return
        watched.last_ns = watched.from_ns = last_at_ns
        if watched.probes or not watched.queued_ns or last_at_ns >= watched.next_arrival_ns:
            watched.probes = 0
            watched.next_arrival_ns = last_at_ns + ONE_ARRIVAL_NS
            watched.count(last_at_ns, 1)
            self._plan(stream, watched)
        else:
            watched.due_ns = last_at_ns + watched.wait_ns

    def ever_heard(self, stream: S) -> bool:
        """Whether it ever brought anything."""
        watched = self._watched.get(stream)
        return watched is not None and watched.arrivals > 0

    def last_ns(self, stream: S) -> int:
        """When it last spoke, or was asked for."""
        return self._watched[stream].last_ns

    def suspects(self, now_ns: int) -> list[Silence[S]]:
        """Those that are silent for too long and were not told yet, the busiest first."""
        found = []
        while (next_ns := self.next_ns()) is not None and next_ns <= now_ns:
            _, _, stream, watched = heappop(self._queue)
            watched.queued_ns = 0
            found.append(Silence(stream, watched.last_ns, watched.rate, watched.probes))
        return sorted(found, key=lambda each: -each.rate)

    def next_ns(self) -> int | None:
        """When the next stream will be suspect if nothing is heard; None if none ever will."""
        while self._queue:
            queued_ns, _, stream, watched = self._queue[0]
            current = self._watched.get(stream) is watched and watched.queued_ns == queued_ns
            if current and watched.due_ns <= queued_ns:
                return queued_ns
            heappop(self._queue)
            if current:  # it was heard since: its turn comes later
                self._enqueue(stream, watched)
        return None

    def clear(self, stream: S, now_ns: int) -> None:
        """Somebody looked, and there was nothing to bring: the silence is real."""
        watched = self._watched.get(stream)
        if watched is None or watched.queued_ns:
            return
        watched.count(now_ns, 0)
        if not watched.probes:
            watched.tolerance = min(_MOST_TOLERANCE, 2 * watched.tolerance_at(now_ns))
            watched.tolerance_set_ns = now_ns
        self._wait_on(stream, watched, now_ns, 1)

    def confirm(self, stream: S, now_ns: int) -> None:
        """There was something to bring: tell again later, and ever later while nothing comes."""
        watched = self._watched.get(stream)
        if watched is not None and not watched.queued_ns:
            self._wait_on(stream, watched, now_ns, 1)

    def postpone(self, stream: S, now_ns: int) -> None:
        """The silence proves nothing, for example because nobody could look: begin it anew."""
        watched = self._watched.get(stream)
        if watched is not None and not watched.queued_ns:
            self._wait_on(stream, watched, now_ns, 0)

    def _wait_on(self, stream: S, watched: _Watched, now_ns: int, probes: int) -> None:
        watched.probes += probes
        watched.from_ns = now_ns
        self._plan(stream, watched)

    def _plan(self, stream: S, watched: _Watched) -> None:
        """Set when it will be suspect, and see to it that the queue comes across it by then."""
        rate = watched.rate
        wait_s = max(self._least_s, _usual_s(rate) if rate else self._first_s)
        if watched.tolerance > 1.0:
            wait_s *= watched.tolerance_at(watched.from_ns)
        wait_s = min(wait_s * 2.0 ** min(watched.probes, 40), _LONGEST_S)
        watched.wait_ns = round(wait_s * SECOND_NS)
        watched.due_ns = watched.from_ns + watched.wait_ns
        if not watched.queued_ns or watched.due_ns < watched.queued_ns:
            self._enqueue(stream, watched)

    def _enqueue(self, stream: S, watched: _Watched) -> None:
        self._order += 1
        watched.queued_ns = watched.due_ns
        heappush(self._queue, (watched.due_ns, self._order, stream, watched))


def _usual_s(rate: float) -> float:
    """How long a silence chance brings once a day."""
    per_day = rate * _DAY_S
    return log(per_day) / rate if per_day > e else _LONGEST_S
