"""Describes open and ended connections for ``/_sim/connections``.

Of an ended connection only its description is kept, as compressed JSON. Both the number of
descriptions and their uncompressed size are limited; the oldest are dropped first.
"""

import zlib
from collections import deque
from dataclasses import asdict

import msgspec

from penstock.simulator.engine.history import kept_text
from penstock.simulator.engine.wire import Client

_MOST = 1000
_MOST_BYTES = 8 * 1024 * 1024


def describe(client: Client) -> dict[str, object]:
    """The description of a connection, as ``/_sim/connections`` returns it."""
    return {
        "id": client.id,
        "ip": client.ip,
        "path": kept_text(client.path),
        "opened_ms": client.opened_ms,
        "closed_ms": client.closed_ms,
        "reason": client.reason,
        "streams": list(client.subscriber.streams),
        "frames_sent": client.frames_sent,
        "messages_received": client.messages_received,
        "subscriptions": [asdict(change) for change in client.changes],
        "subscriptions_dropped": client.changes_dropped,
    }


class Ended:
    """The connections that ended most recently."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._descriptions: deque[tuple[int, bytes]] = deque()
        """(uncompressed size, compressed description) of each."""
        self._bytes = 0
        self.dropped = 0
        """How many older descriptions have been dropped."""

    def append(self, client: Client) -> None:
        """Store the description of a connection."""
        description = msgspec.json.encode(describe(client))
        self._descriptions.append((len(description), zlib.compress(description)))
        self._bytes += len(description)
        while len(self._descriptions) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._descriptions.popleft()[0]
            self.dropped += 1

    def descriptions(self) -> msgspec.Raw:
        """All descriptions as a JSON array, the latest last."""
        described = (zlib.decompress(compressed) for _, compressed in self._descriptions)
        return msgspec.Raw(b"[%b]" % b",".join(described))
