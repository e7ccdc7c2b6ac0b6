"""The digest of a replay: SHA-256 over everything that was emitted, in order.

Each record contributes its topic in UTF-8, a NUL, the record's bytes as in the log, and a NUL.
Neither has a NUL inside, so no two sequences of records contribute the same bytes. Speed, batches
and the process have no influence: equal digests mean equal records in equal order.
"""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Protocol

from penstock.storage.log import received_at_ns

_MUCH = 64 * 1024
"""Bytes from which on a thread is worth it."""


class Emitted(Protocol):
    """A record that was replayed or recorded."""

    @property
    def topic(self) -> str: ...

    @property
    def slot(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def record(self) -> bytes: ...


class Digest:
    """Computes the digest of records as they are emitted.

    Much at once is hashed in a thread: other threads run meanwhile.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._topics = _TopicBytes()
        self._hasher = ThreadPoolExecutor(1, "digest")
        self._hashing: Future[None] | None = None

    def update(self, records: Sequence[Emitted]) -> None:
        """Add records, in order."""
        data = self._data(records)
        self._wait()
        if len(data) < _MUCH:
            self._hash.update(data)
        else:
            self._hashing = self._hasher.submit(self._hash.update, data)

    def hexdigest(self) -> str:
        """The digest of all records so far."""
        self._wait()
        return self._hash.hexdigest()

    def _data(self, records: Sequence[Emitted]) -> bytes | memoryview:
        # Column by column, which takes a third of the time of a loop.
        topics = {*map(_TOPIC, records)}
        if len(topics) == 1:
            head = self._topics[topics.pop()] + b"\0"
            data = (b"\0" + head).join([b"", *map(_RECORD, records), b""])
            return memoryview(data)[1 : -len(head)]
        parts = [b""] * (2 * len(records) + 1)
        parts[:-1:2] = map(self._topics.__getitem__, map(_TOPIC, records))
        parts[1::2] = map(_RECORD, records)
        return b"\0".join(parts)

    def _wait(self) -> None:
        if self._hashing is not None:
            self._hashing.result()
            self._hashing = None


def digest_of(records: Iterable[Emitted]) -> str:
    """The digest of a replay of these records, whatever order they are in.

    So a tap of a recorder that gathers what it is given has the digest of the live run.
    """
    digest = Digest()
    digest.update(sorted(records, key=_order))
    return digest.hexdigest()


_TOPIC, _RECORD = attrgetter("topic"), attrgetter("record")


def _order(each: Emitted) -> tuple[int, str, int, str, bytes]:
    return received_at_ns(each.record), each.slot, each.number, each.topic, each.record


class _TopicBytes(dict[str, bytes]):
    def __missing__(self, topic: str) -> bytes:
        made = self[topic] = topic.encode()
        return made
