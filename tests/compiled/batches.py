"""Records to publish, usual and unusual, and two publishers, one on each path, that must agree."""

from collections.abc import Sequence
from random import Random
from typing import Any

import zmq
from msgspec import Struct
from tests.paths import in_python

from penstock.config import Bus
from penstock.publish import Message
from penstock.publish.frames import Head
from penstock.publish.zeromq import ZeroMqPublisher
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream

STREAM = Stream("sim", "trades", "btc_usdt")
MOST_NUMBER = (1 << 63) - 1
OVERHEAD = len("_batch\0vkla") + 8 + 5
"""Bytes of a batch of slot ``a`` besides its packed frames, at most."""
_TOPICS = ("sim.trades.x", "x", "é", *(f"sim.{n}" for n in range(30)))
_BAD_TOPICS: tuple[Any, ...] = ("", "a\0b", "x" * 256, "\ud800", None, 7, b"x")
_NUMBERS = (0, 1, MOST_NUMBER - 1, MOST_NUMBER)
_BAD_NUMBERS: tuple[Any, ...] = (-1, 1 << 63, (1 << 64) - 1, 1 << 64, True, None, 1.5)
_BAD_RECORDS: tuple[Any, ...] = (bytearray(b"123"), memoryview(b"123"), "text", None)
_MOST_BYTES = (1024, 1024, 5_000, 65_000, 65_558, 66_000, 70_000, 4 << 20)
_SIZES = (0, 1, 2, 40, 120, 300, 1_000)


class Text(str):
    """A topic that is not exactly a str."""

    __slots__ = ()


class Data(bytes):
    """A record that is not exactly bytes."""

    __slots__ = ()


class Longer(Stored, frozen=True, gc=False):
    """A record that is not exactly a ``Stored``."""

    more: int = 0


class OfProperties(Struct):
    """A message whose fields are computed."""

    number: int = 1
    record: bytes = b"\x01{}"
    slot: str = "a"

    @property
    def topic(self) -> str:
        return "sim.computed"


def stored(topic: Any, number: Any, record: Any, kind: type[Stored] = Stored) -> Stored:
    return kind(STREAM, "a", number, b"", record, topic)


def some_records(chance: Random, most_bytes: int) -> list[Any]:
    """The records of one call, most often as the log makes them."""
    count = chance.choice((0, 1, 1, 2, 15, 16, 17, 50, 50, 50, 300))
    is_odd, same_size = chance.random() < 0.3, chance.random() < 0.3
    size = _size(chance, most_bytes)
    made: list[Any] = []
    for _ in range(count):
        topic: Any = chance.choice(_TOPICS)
        if made and chance.random() < 0.5:
            topic = made[-1].topic
        elif chance.random() < 0.3:
            topic = "".join(list(topic))  # equal, but another object
        number: Any = chance.choice(_NUMBERS) if chance.random() < 0.2 else chance.randrange(10**9)
        record: Any = b"\x01" + chance.randbytes(1) * size
        if not size:
            record = b"\x01"[: chance.randrange(2)]
        if not same_size:
            # Few large ones: what is packed is compared byte by byte.
            size = _size(chance, most_bytes) if chance.random() < 0.1 else chance.choice(_SIZES)
        made.append(stored(topic, number, record))
        if is_odd and chance.random() < 0.05:
            made[-1] = _odd(chance, topic, number, record)
    return made


def _size(chance: Random, most_bytes: int) -> int:
    """Of a payload, often so that a frame or some of them just fit or just do not."""
    if chance.random() < 0.3:
        return chance.choice(_SIZES)
    limit = chance.choice((0x100, most_bytes, most_bytes - OVERHEAD, min(64 << 10, most_bytes)))
    share = chance.choice((1, 1, 2, 3, 16, 50))
    return max(min(limit, 200_000) // share - chance.randrange(50), 0)


def _odd(chance: Random, topic: Any, number: Any, record: Any) -> Any:
    kind = chance.randrange(8)
    if kind == 0:
        return stored(chance.choice(_BAD_TOPICS), number, record)
    if kind == 1:
        return stored(topic, chance.choice(_BAD_NUMBERS), record)
    if kind == 2:
        return stored(topic, number, chance.choice(_BAD_RECORDS))
    if kind == 3:
        return stored(Text(topic), number, record)
    if kind == 4:
        return stored(topic, number, Data(record))
    if kind == 5:
        return stored(topic, number, record, Longer)
    if kind == 6:
        return OfProperties()
    return Message(topic, "a", number, record)


class _Endpoints:
    """Leads nowhere."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Bus(**settings)

    def connect(self, *_: object) -> None: ...


class Socket:
    """What is sent; some of it does not fit the queue."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.calls = 0

    def send(self, data: bytes, _flags: int) -> None:
        self.calls += 1
        if self.calls % 7 == 6:
            raise zmq.Again
        self.sent.append(data)


class One:
    """A publisher to a broker that is connected."""

    def __init__(self, **settings: Any) -> None:
        self.socket = Socket()
        endpoints: Any = _Endpoints(**settings)
        self.publisher = ZeroMqPublisher(endpoints, "a", Head(1, 2), {"sim.old": 7})
        self.publisher.close()
        self.publisher._socket = self.socket  # type: ignore[assignment]
        self.publisher._has_broker = True

    def publish(self, messages: Sequence[Any]) -> object:
        """Publish; return everything that can be told from it."""
        self.socket.sent = []
        why = None
        try:
            self.publisher.publish(messages)
        except Exception as error:
            why = type(error), str(error)
        numbers = [(topic, type(n), n) for topic, n in self.publisher._numbers.items()]
        kinds = [type(data) for data in self.socket.sent]
        return why, self.socket.sent, kinds, numbers, repr(self.publisher.counts)

    def packed(self, messages: Sequence[Any]) -> list[int] | None:
        """How many records each message has that the compiled path makes."""
        found = self.publisher._packed(messages)
        return None if found is None else [count for _, count in found]


class BothPublishers:
    """A publisher on each path."""

    def __init__(self, **settings: Any) -> None:
        with in_python():
            self.python = One(**settings)
        self.compiled = One(**settings)

    def publish(self, messages: Sequence[Any]) -> None:
        """Let both publish, and compare."""
        told = self.python.publish(messages)
        assert self.compiled.publish(messages) == told


def run(seed: int, rounds: int) -> int:
    """Publish on both paths; return the number of records. Raises AssertionError."""
    chance, records = Random(seed), 0
    most_bytes = chance.choice(_MOST_BYTES)
    payload = "json" if chance.random() < 0.9 else "msgpack"
    both = BothPublishers(message_bytes=most_bytes, payload=payload)
    for _ in range(rounds):
        messages = some_records(chance, most_bytes)
        both.publish(messages if chance.random() < 0.9 else tuple(messages))
        records += len(messages)
    return records
