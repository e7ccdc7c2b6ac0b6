"""Records that a log has written, usual and unusual, and taps on both paths that must agree."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.events import BTC, ticker, trade
from tests.paths import in_python

from penstock.coverage.batches import StreamBatch
from penstock.market.codec import encode
from penstock.market.events import Event, Source
from penstock.market.symbol import Symbol
from penstock.runtime.stream_taps import StreamTaps
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream, key_of_arrival, key_of_id, stream_of

ETH = Symbol("ETH", "USDT")
_LARGE_ID = 0xFE << 56
_ODD_NUMBERS: tuple[Any, ...] = (0, -1, (1 << 63) - 1, 1 << 63, 1 << 64)


def has_ids(stream: Stream) -> bool:
    return stream.channel == "trades"


class Taps:
    """Taps on one path, and what they received."""

    def __init__(self) -> None:
        self.received: list[tuple[Any, ...]] = []
        self.taps = StreamTaps([self._receive], 1.0, has_ids)

    def _receive(self, batches: Sequence[StreamBatch]) -> None:
        self.received += [(b.stream, b.records, b.count, b._ranges) for b in batches]


class BothTaps:
    """Taps on both paths that receive the same records."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        with in_python():
            self.python = Taps()
        self.compiled = Taps()
        self._last: dict[tuple[bool, Symbol], tuple[int, int]] = {}
        self._now_ns = 0

    def step(self) -> None:
        """Let both receive some records, and compare."""
        records = [self._record() for _ in range(self._chance.choice((1, 3, 30)))]
        for each in (self.python, self.compiled):
            each.taps(records)
        if self._chance.random() < 0.1:
            for each in (self.python, self.compiled):
                each.taps.pass_on()
        assert self.python.received == self.compiled.received

    def _record(self) -> Stored:
        chance = self._chance
        has_id, symbol = chance.choice(((True, BTC), (True, BTC), (True, ETH), (False, BTC)))
        self._now_ns += chance.choice((1, 1, 1, 1, 1, 400_000_000))
        number, id_ = self._last.get((has_id, symbol), (0, 0))
        number += chance.choice((1,) * 80 + (0, 2))
        id_ += chance.choice((1,) * 60 + (0, 2, -3))
        if chance.random() < 0.002:
            number = chance.choice(_ODD_NUMBERS)
        if chance.random() < 0.002:
            id_ = _LARGE_ID + chance.choice((-2, -1, 0))
        self._last[has_id, symbol] = number, id_
        source: Source = "rest" if chance.random() < 0.02 else "live"
        event: Event = ticker(self._now_ns, symbol, source=source)
        if has_id:
            event = trade(1, symbol, received_at_ns=self._now_ns, source=source)
        key = key_of_id(id_) if has_id and id_ >= 0 else key_of_arrival(self._now_ns)
        return self._stored(event, number, key)

    def _stored(self, event: Event, number: int, key: bytes) -> Stored:
        record, is_known = encode(event), self._chance.random() < 0.98
        return Stored(
            stream_of(event), "a", number, key, record, "topic", event if is_known else None
        )


def run(seed: int, steps: int) -> int:
    """Compare for so many steps. Raises AssertionError."""
    both = BothTaps(seed)
    for _ in range(steps):
        both.step()
    return steps
