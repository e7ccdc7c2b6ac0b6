"""Counts answers that name neither their request nor their stream.

A request for several streams of one channel is answered once for each. Answers that name their
stream need no counting. Those that do not are counted for the oldest request with the same key
(its channel), and a request is answered as a whole when there are as many answers as it has
streams.
"""

from collections import deque
from collections.abc import Iterable

_REMEMBERED = 100
"""Requests kept per key; an exchange that owes more answers will not send them."""


class _Request:
    __slots__ = ("answers", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names, self.answers = set(names), 0


class AckCounts:
    """The unanswered requests of one connection, by key."""

    def __init__(self) -> None:
        self._requests: dict[str, deque[_Request]] = {}

    def ask(self, key: str, names: Iterable[str]) -> None:
        """Note a request; it replaces earlier ones for the same streams."""
        fresh = _Request(names)
        for name in fresh.names:
            self.named(key, name)
        self._requests.setdefault(key, deque(maxlen=_REMEMBERED)).append(fresh)

    def named(self, key: str, name: str) -> None:
        """Note an answer that names its stream."""
        requests = self._requests.get(key, deque())
        for request in list(requests):
            request.names.discard(name)
            if not request.names:
                requests.remove(request)

    def unnamed(self, key: str) -> tuple[str, ...]:
        """Note an answer that does not; return the answered streams, all of a request or none."""
        requests = self._requests.get(key)
        if not requests:
            return ()
        oldest = requests[0]
        oldest.answers += 1
        if oldest.answers < len(oldest.names):
            return ()
        requests.popleft()
        return tuple(sorted(oldest.names))
