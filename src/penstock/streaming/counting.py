"""Counting answers: what is left where an answer says neither which request nor which stream.

A request for several streams of one channel is answered once for each. As long as answers name
their stream nothing has to be counted; those that do not are counted for the oldest request under
the same key (method and channel), and a request is answered as a whole when there are as many
answers as it has streams.
"""

from collections import deque
from collections.abc import Iterable

_REMEMBERED = 100
"""Requests under one key; an exchange that owes more answers will not send them."""


class _Request:
    __slots__ = ("answers", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names, self.answers = set(names), 0


class AckCounts:
    """The requests of one connection that are not answered yet, by key."""

    def __init__(self) -> None:
        self._requests: dict[str, deque[_Request]] = {}

    def ask(self, key: str, names: Iterable[str]) -> None:
        """A request goes out; streams that were asked for before are waited for anew."""
        fresh = _Request(names)
        for name in fresh.names:
            self.named(key, name)
        self._requests.setdefault(key, deque(maxlen=_REMEMBERED)).append(fresh)

    def named(self, key: str, name: str) -> None:
        """An answer names its stream."""
        requests = self._requests.get(key, deque())
        for request in list(requests):
            request.names.discard(name)
            if not request.names:
                requests.remove(request)

    def unnamed(self, key: str) -> tuple[str, ...]:
        """An answer does not; the streams that are answered with it, all of a request or none."""
        requests = self._requests.get(key)
        if not requests:
            return ()
        oldest = requests[0]
        oldest.answers += 1
        if oldest.answers < len(oldest.names):
            return ()
        requests.popleft()
        return tuple(sorted(oldest.names))
