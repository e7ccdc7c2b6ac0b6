"""Liveness decides when a silent stream may be stalled and should be probed.

A quiet market is silent too, so a silence is only too long relative to the stream's usual rate,
which is learned from its arrivals. If arrivals were random at a rate of λ per second, a silence
longer than ``ln(86,400 λ) / λ`` seconds would occur once a day. A stream may be silent for that
long, but for ten seconds at least. Then a probe, by another way, should check for missing data.

Markets are not random, so three rules avoid false alarms. Events within a tenth of a second count
as one arrival, so that an order that fills a hundred others does not look like a hundred a second.
The rate is that of the last minutes, or of the last thirty arrivals where those took longer, minus
one standard deviation. And when a probe finds a silence to be real, the allowed silence doubles:
for the rest of that silence each time, and for some hours once.
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
"""The formula's result for the slowest stream it is valid for; slower ones wait as long."""
ONE_ARRIVAL_NS = SECOND_NS // 10
"""Events within this time count as one arrival."""
_MEMORY_S = 300.0
_MEMORY_ARRIVALS = 30.0
_COUNT_NS = 3 * SECOND_NS
"""How often the arrivals of a stream are counted: to do so costs more than all else."""
_KNOWN_ARRIVALS = 5
"""With fewer arrivals the rate is a guess; the stream is treated as one without data."""
_TOLERANCE_HALVES_S = 6 * 3600.0
_MOST_TOLERANCE = 64.0

S = TypeVar("S", bound=Hashable)


class Silence(NamedTuple, Generic[S]):
    """A stream that has been silent for longer than is usual for it."""

    stream: S
    since_ns: int
    """The time of its last arrival, or of its subscription."""
    rate: float
    """The usual arrivals per second; 0 if unknown."""
    probes: int
    """How often this silence was probed before."""


class _Watched:
    """The state of one stream."""

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
        "uncounted",
        "wait_ns",
        "weight",
    )

    def __init__(self, at_ns: int) -> None:
        self.arrivals = 0
        self.uncounted = 0
        """Further arrivals, since ``counted_ns``."""
        self.weight = 0.0
        """Recent arrivals, each with a weight that decays with its age."""
        self.span_s = 0.0
        """The seconds in which they came, with the same decay."""
        self.counted_ns = at_ns
        """The time up to which both are counted."""
        self.last_ns = at_ns
        """The time of its last arrival, or of its subscription."""
        self.from_ns = at_ns
        """The start of the wait: ``last_ns``, or the last probe."""
        self.wait_ns = 0
        self.due_ns = 0
        self.queued_ns = 0
        """Its time in the queue, never later than ``due_ns``; 0 while it is a suspect."""
        self.next_arrival_ns = at_ns
        """Events before this belong to the previous arrival."""
        self.probes = 0
        self.tolerance = 1.0
        self.tolerance_set_ns = at_ns

    @property
    def rate(self) -> float:
        """Arrivals per second, minus one standard deviation; 0 while unknown."""
        if self.arrivals < _KNOWN_ARRIVALS or not self.span_s:
            return 0.0
        return max(0.0, self.weight - sqrt(self.weight)) / self.span_s

    def count(self, at_ns: int) -> None:
        """Advance the counts to this time, and add the arrivals that are not counted yet."""
        arrivals, self.uncounted = self.uncounted, 0
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
    """The expected streams, and which of them have been silent for too long.

    The caller has to report the result for each suspect with ``clear``, ``postpone`` or
    ``confirm``; until then it is not returned again. To get suspects in time, call at ``next_ns``,
    which may become earlier with any arrival, but is at least ``least_s`` after that.
    """

    def __init__(self, *, least_s: float = LEAST_S, first_s: float = FIRST_S) -> None:
        """``least_s``: the shortest silence that counts; ``first_s``: while the rate is unknown."""
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
        """Add subscribed streams; those already expected are not changed."""
        for stream in streams:
            if stream not in self._watched:
                watched = self._watched[stream] = _Watched(at_ns)
                self._plan(stream, watched)

    def forget(self, stream: S) -> None:
        """Stop expecting a stream."""
        self._watched.pop(stream, None)

    def heard(self, stream: S, last_at_ns: int) -> None:
        """Note data of a stream, the last at this time; call at least every 0.1 s or so."""
        watched = self._watched.get(stream)
        if watched is None or last_at_ns < watched.last_ns:
            return
        watched.last_ns = watched.from_ns = last_at_ns
        if watched.probes or not watched.queued_ns or last_at_ns >= watched.next_arrival_ns:
            watched.next_arrival_ns = last_at_ns + ONE_ARRIVAL_NS
            watched.uncounted += 1
            if (
                watched.probes
                or not watched.queued_ns
                or watched.arrivals < _KNOWN_ARRIVALS
                or last_at_ns - watched.counted_ns >= _COUNT_NS
            ):
                watched.probes = 0
                watched.count(last_at_ns)
                self._plan(stream, watched)
                return
        watched.due_ns = last_at_ns + watched.wait_ns

    def ever_heard(self, stream: S) -> bool:
        """Whether a stream ever delivered data."""
        watched = self._watched.get(stream)
        return watched is not None and watched.arrivals > 0

    def last_ns(self, stream: S) -> int:
        """The time of its last arrival, or of its subscription."""
        return self._watched[stream].last_ns

    def suspects(self, now_ns: int) -> list[Silence[S]]:
        """Return streams that are silent for too long, each once, the busiest first."""
        found = []
        while (next_ns := self.next_ns()) is not None and next_ns <= now_ns:
            _, _, stream, watched = heappop(self._queue)
            watched.queued_ns = 0
            found.append(Silence(stream, watched.last_ns, watched.rate, watched.probes))
        return sorted(found, key=lambda each: -each.rate)

    def next_ns(self) -> int | None:
        """When the next stream becomes a suspect if no data arrives; None if none will."""
        while self._queue:
            queued_ns, _, stream, watched = self._queue[0]
            current = self._watched.get(stream) is watched and watched.queued_ns == queued_ns
            if current and watched.due_ns <= queued_ns:
                return queued_ns
            heappop(self._queue)
            if current:  # data arrived since: it is due later
                self._enqueue(stream, watched)
        return None

    def clear(self, stream: S, now_ns: int) -> None:
        """Note a probe that found no missing data: the silence is real."""
        watched = self._watched.get(stream)
        if watched is None or watched.queued_ns:
            return
        watched.count(now_ns)
        if not watched.probes:
            watched.tolerance = min(_MOST_TOLERANCE, 2 * watched.tolerance_at(now_ns))
            watched.tolerance_set_ns = now_ns
        self._wait_on(stream, watched, now_ns, 1)

    def confirm(self, stream: S, now_ns: int) -> None:
        """Note a probe that found missing data; suspect the stream again, after growing waits."""
        watched = self._watched.get(stream)
        if watched is not None and not watched.queued_ns:
            self._wait_on(stream, watched, now_ns, 1)

    def postpone(self, stream: S, now_ns: int) -> None:
        """Restart the wait: the silence proves nothing, for example because no probe ran."""
        watched = self._watched.get(stream)
        if watched is not None and not watched.queued_ns:
            self._wait_on(stream, watched, now_ns, 0)

    def _wait_on(self, stream: S, watched: _Watched, now_ns: int, probes: int) -> None:
        watched.probes += probes
        watched.from_ns = now_ns
        self._plan(stream, watched)

    def _plan(self, stream: S, watched: _Watched) -> None:
        """Set when a stream becomes a suspect, and queue it for that time."""
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
    """The silence that random arrivals at this rate exceed once a day."""
    per_day = rate * _DAY_S
    return log(per_day) / rate if per_day > e else _LONGEST_S
