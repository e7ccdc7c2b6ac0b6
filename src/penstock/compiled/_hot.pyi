"""The extension; see its sources for what it promises."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Raw

INTERFACE: int
SOURCES: str
"""The digest of the sources that it was compiled from."""

def number(text: str, /) -> Decimal: ...
def decimals(raw: Raw | bytes, /) -> list[tuple[Decimal, Decimal]] | None: ...

class Number:
    def __new__(cls, name: str, repeats: bool) -> Number: ...

class Levels:
    def __new__(
        cls, name: str, otherwise: Callable[[Raw], list[tuple[Decimal, Decimal]]], repeats: bool
    ) -> Levels: ...

class Reader:
    def __new__(
        cls,
        largest: int,
        layouts: tuple[tuple[Any, ...], ...],
        prefix: bytes = ...,
        read: Callable[[bytes | str, int], list[Any]] | None = None,
        read_many: Callable[[Sequence[bytes | str], Sequence[int]], list[Any] | None] | None = None,
        accepted: Callable[[list[Any]], list[Any]] | None = None,
    ) -> Reader: ...
    def add(self, name: bytes, layout: int, symbol: object, native: bytes, /) -> None: ...
    # Any: None only where nothing was given to read what it does not recognise.
    def read(self, frame: bytes | str, received_at_ns: int, /) -> Any: ...
    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int], /
    ) -> list[Any] | None: ...

class Book:
    def __new__(cls, depth: int = 0) -> Book: ...
    def apply(self, bids: Raw | bytes, asks: Raw | bytes, /) -> bool: ...
    def load(self, bids: Raw | bytes, asks: Raw | bytes, /) -> bool: ...
    def forget_beyond(self, bid: str | None, ask: str | None, /) -> bool: ...
    def crossed(self) -> bool: ...
    def texts(
        self, depth: int | None, /
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]: ...
    def digits(self, depth: int | None, /) -> tuple[str, str]: ...
    @property
    def best_bid(self) -> tuple[Decimal, Decimal] | None: ...
    @property
    def best_ask(self) -> tuple[Decimal, Decimal] | None: ...
    def __len__(self) -> int: ...

class Updater:
    # Any: of whatever classes deltas, books and their levels are.
    def __new__(
        cls,
        delta: object,
        delta_fields: tuple[Any, ...],
        book: object,
        book_fields: tuple[Any, ...],
        levels: object,
        levels_fields: tuple[Any, ...],
        synced: str,
        crossed: str,
    ) -> Updater: ...
    def apply(
        self, events: Sequence[Any], books: dict[Any, Any], otherwise: Callable[[Any], None], /
    ) -> None: ...

class Gatherer:
    # Any: of whatever classes records and batches are.
    def __new__(
        cls,
        record: object,
        record_fields: tuple[Any, ...],
        batch: object,
        batch_fields: tuple[Any, ...],
        source: str,
        marker: object,
    ) -> Gatherer: ...
    def gather(
        self, records: Sequence[Any], batches: dict[Any, Any], otherwise: Callable[[Any], None], /
    ) -> bool: ...

class Latest:
    def __new__(cls) -> Latest: ...
    def note(self, events: Sequence[Any], /) -> None: ...
    def take(self) -> list[Any]: ...

class Encoder:
    def __new__(
        cls,
        event: object,
        common: tuple[Any, ...],
        own: tuple[Any, ...],
        plan: tuple[tuple[bytes, tuple[object, ...]], ...],
    ) -> Encoder: ...
    def encode(self, beginning: bytes, event: object, /) -> bytes | None: ...

class Appender:
    def __new__(
        cls,
        stored: object,
        stored_fields: tuple[Any, ...],
        head: object,
        head_fields: tuple[Any, ...],
        most_in_batch: int,
    ) -> Appender: ...
    def learn(self, event: object, head: object, encoder: Encoder, beginning: bytes, /) -> None: ...
    def clear(self) -> None: ...
    # Any: of whatever class the events and the records are.
    def add(
        self, events: Sequence[Any], batch: object, slot: str, /
    ) -> tuple[Sequence[Any], list[Any]]: ...

class Relay:
    def __new__(
        cls,
        socket: int,
        send: int,
        large: int,
        send_else: Callable[[bytes], None],
        stream_of: Callable[[bytes], object],
        last: dict[Any, bytes],
        most: int,
        entry: int,
    ) -> Relay: ...
    def forward(self, data: bytes, place: int, /) -> tuple[int, int, int] | None: ...

class Incoming:
    def __new__(
        cls,
        socket: int,
        zmq_msg_init: int,
        zmq_msg_recv: int,
        zmq_msg_data: int,
        zmq_msg_size: int,
        zmq_msg_close: int,
        zmq_getsockopt: int,
    ) -> Incoming: ...
    def take(self, most: int, most_bytes: int, /) -> list[bytes] | None: ...
    def waits(self) -> bool | None: ...

class Packer:
    def __new__(
        cls,
        sample: object,
        fields: tuple[Any, ...],
        beginnings: dict[str, bytes],
        numbers: dict[str, int],
        batch_beginning: bytes,
        most: int,
        most_in_batch: int,
    ) -> Packer: ...
    # Any: of whatever class the messages are.
    def pack(self, messages: Sequence[Any], /) -> list[tuple[bytes, int]] | None: ...

class PlainFrames:
    def __new__(
        cls,
        room: int,
        largest: int,
        frames: list[bytes],
        stamps_ns: list[int],
        now_ns: Callable[[], int],
        anchor_ns: int,
        many: int,
        arrived: Callable[[int], object],
        hand_on: Callable[[bytes], object],
    ) -> PlainFrames: ...
    @property
    def last_ns(self) -> int: ...
    def get_buffer(self, sizehint: int, /) -> memoryview: ...
    def buffer_updated(self, nbytes: int, /) -> None: ...
