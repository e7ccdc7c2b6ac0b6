"""Who watches which topics, and what waits to be sent to each viewer. Without sockets and tasks.

An update is encoded once for all viewers. At most two updates of a topic wait for a viewer; a newer
one replaces the older of them, so a viewer that reads slowly gets fewer updates and costs little
memory. Updates of a topic are numbered, so a viewer knows what it missed.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

MOST_WAITING = 2
"""Updates of one topic that wait for a viewer."""


class Update(Struct, frozen=True, kw_only=True):
    """A message of a topic: its document, or why there is none."""

    topic: str
    seq: int | UnsetType = UNSET
    at_ms: int | UnsetType = UNSET
    data: Any = UNSET
    error: str | UnsetType = UNSET


class Viewer:
    """What waits to be sent to one viewer."""

    def __init__(self, wake: Callable[[], object]) -> None:
        """``wake`` is called whenever a message was added."""
        self._wake = wake
        self._waiting: dict[str, deque[bytes]] = {}
        """By topic; the topic whose turn it is comes first."""
        self.topics: frozenset[str] = frozenset()
        self.dropped = 0
        """Updates that were replaced by newer ones before they were sent."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, topic: str, message: bytes) -> None:
        """Add a message; of a topic with two waiting messages the older one is dropped."""
        waiting = self._waiting.setdefault(topic, deque(maxlen=MOST_WAITING))
        self.dropped += len(waiting) == MOST_WAITING
        waiting.append(message)
        self._wake()

    def take(self) -> bytes | None:
        """Remove the next message: topics take turns, each with its oldest message."""
        if not self._waiting:
            return None
        topic = next(iter(self._waiting))
        waiting = self._waiting.pop(topic)
        message = waiting.popleft()
        if waiting:
            self._waiting[topic] = waiting
        return message

    def keep(self, topics: Collection[str]) -> None:
        """Watch these topics only; messages of others are dropped."""
        self.topics = frozenset(topics)
        self._waiting = {
            topic: waiting for topic, waiting in self._waiting.items() if topic in self.topics
        }


class LiveHub:
    """The viewers, and the latest update of every topic."""

    def __init__(self) -> None:
        self._watching: dict[str, dict[Viewer, None]] = {}
        self._latest: dict[str, bytes] = {}
        self._seq: dict[str, int] = {}

    def is_watched(self, topic: str) -> bool:
        """Whether a viewer watches a topic."""
        return topic in self._watching

    def watch(self, viewer: Viewer, topics: Collection[str]) -> None:
        """Replace the topics of a viewer; new ones begin with their latest update."""
        added = [topic for topic in dict.fromkeys(topics) if topic not in viewer.topics]
        for topic in viewer.topics.difference(topics):
            watching = self._watching[topic]
            del watching[viewer]
            if not watching:
                del self._watching[topic]
        viewer.keep(topics)
        for topic in added:
            self._watching.setdefault(topic, {})[viewer] = None
            if (latest := self._latest.get(topic)) is not None:
                viewer.put(topic, latest)

    def publish(self, topic: str, at_ms: int, data: object) -> None:
        """Send a document to everyone who watches the topic."""
        self._send(topic, at_ms, data, UNSET)

    def fail(self, topic: str, at_ms: int, error: str) -> None:
        """Send everyone who watches the topic why there is no document."""
        self._send(topic, at_ms, UNSET, error)

    def forget(self, topic: str) -> None:
        """Forget the latest update and the number of a topic that is computed no more."""
        self._latest.pop(topic, None)
        self._seq.pop(topic, None)

    def _send(
        self, topic: str, at_ms: int, data: object | UnsetType, error: str | UnsetType
    ) -> None:
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        update = Update(topic=topic, seq=seq, at_ms=at_ms, data=data, error=error)
        message = self._latest[topic] = msgspec.json.encode(update)
        for viewer in self._watching.get(topic, ()):
            viewer.put(topic, message)
