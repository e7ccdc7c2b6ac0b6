"""The assignment of streams to connections, and the rate at which connections are opened.

A stream stays on the connection it was assigned to. Added streams go to the fullest connection that
has room, so that no connection is opened without need; removed ones free room. Both are pure.
"""

from collections import deque
from collections.abc import Iterable

from penstock.streaming.dialect import StreamLimits
from penstock.streaming.subscribe_requests import SECOND_NS
from penstock.streaming.wanted import StreamKey

_SHARE = 0.8
"""The used share of an exchange's connect limit; the rest is for other clients of the address."""
TROUBLED_CONNECTS = 10
TROUBLED_PERIOD_NS = 60 * SECOND_NS


class Sharding:
    """Streams by shard, each within the limit of a connection."""

    def __init__(self, streams_per_connection: int) -> None:
        self._room = streams_per_connection
        self._shard_of: dict[StreamKey, int] = {}
        self._sizes: dict[int, int] = {}
        self._shards_ever = 0

    @property
    def shards(self) -> dict[int, list[StreamKey]]:
        """The streams of every shard that has any."""
        shards: dict[int, list[StreamKey]] = {number: [] for number in self._sizes}
        for stream_key, number in self._shard_of.items():
            shards[number].append(stream_key)
        return shards

    def shard_of(self, stream_key: StreamKey) -> int | None:
        """Return the shard of a stream."""
        return self._shard_of.get(stream_key)

    def add(self, stream_keys: Iterable[StreamKey]) -> dict[int, list[StreamKey]]:
        """Assign streams to shards; return the new ones, by shard."""
        added: dict[int, list[StreamKey]] = {}
        for stream_key in stream_keys:
            if stream_key not in self._shard_of:
                number = self._with_room()
                self._shard_of[stream_key] = number
                self._sizes[number] += 1
                added.setdefault(number, []).append(stream_key)
        return added

    def remove(self, stream_keys: Iterable[StreamKey]) -> dict[int, list[StreamKey]]:
        """Remove streams; return those that were assigned, by shard. Empty shards are dropped."""
        removed: dict[int, list[StreamKey]] = {}
        for stream_key in stream_keys:
            number = self._shard_of.pop(stream_key, None)
            if number is not None:
                self._sizes[number] -= 1
                removed.setdefault(number, []).append(stream_key)
        for number in removed:
            if not self._sizes[number]:
                del self._sizes[number]
        return removed

    def _with_room(self) -> int:
        open_ones = [number for number, size in self._sizes.items() if size < self._room]
        if open_ones:
            return max(open_ones, key=lambda number: self._sizes[number])
        self._shards_ever += 1
        self._sizes[self._shards_ever] = 0
        return self._shards_ever


class ConnectLimiter:
    """Limits the rate of new connections to an exchange, for all shards together."""

    def __init__(self, limits: StreamLimits, processes: int = 1) -> None:
        """``processes`` collect from the exchange, each with an equal part of its limit."""
        self._most = max(1, int(limits.connects * _SHARE / processes))
        self._most_troubled = max(1, TROUBLED_CONNECTS // processes)
        self._period_ns = round(limits.connects_period_s * SECOND_NS)
        self._troubled = False
        self._at_ns: deque[int] = deque(maxlen=max(self._most, self._most_troubled))

    def wait_ns(self, at_ns: int) -> int:
        """Return how long to wait from this time; check again then."""
        wait_ns = self._wait_ns(self._most, self._period_ns, at_ns)
        if self._troubled:
            troubled_ns = self._wait_ns(self._most_troubled, TROUBLED_PERIOD_NS, at_ns)
            wait_ns = max(wait_ns, troubled_ns)
        return wait_ns

    def note(self, at_ns: int) -> None:
        """Note a connection attempt."""
        self._at_ns.append(at_ns)

    def succeeded(self) -> None:
        """Note a successful connection: end the slow rate."""
        self._troubled = False

    def failed(self) -> None:
        """Note a connection that failed or did not last: use the slow rate from now on."""
        self._troubled = True

    def _wait_ns(self, most: int, period_ns: int, at_ns: int) -> int:
        if len(self._at_ns) < most:
            return 0
        return max(0, self._at_ns[-most] + period_ns - at_ns)
