"""Deltas that follow, overlap, are lost or crossed, and two connections that must keep one book."""

from random import Random
from typing import Any

from msgspec import Raw
from tests.events import trade
from tests.paths import in_python

from penstock.books.events import AuditDone, PriceLeft
from penstock.market.events import BookDelta, BookSnapshot, Event
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.connection import Connection

from .both import BTC, ETH, books_of, connection

_SYMBOLS = (BTC, BTC, BTC, ETH, Symbol("XRP", "USD"))
_LARGEST = (1 << 63) - 1
_ODD_IDS: tuple[Any, ...] = (None, 0, -1, _LARGEST, 1 << 63, 1 << 70)
_ODD_LEVELS = (b'[["1.50","1"]]', b'[ ["9","1"]]', b'[["x","1"]]', b'[["1e3","1"]]', b"[", b"{}",
               b'[["123456789012345678901234567890","1"]]')  # fmt: skip


def some_levels(chance: Random, first: int) -> Raw:
    """Levels of a side, most often few and near each other."""
    if chance.random() < 0.01:
        return Raw(chance.choice(_ODD_LEVELS))
    levels = [
        (f"{first + chance.randrange(20)}.{chance.randrange(10)}", str(chance.randrange(4)))
        for _ in range(chance.choice((0, 1, 1, 2, 5)))
    ]
    return write_levels(levels)


def some_snapshot(chance: Random, symbol: Symbol, update_id: int) -> BookSnapshot:
    return BookSnapshot(
        exchange="binance", symbol=symbol, received_at_ns=0, update_id=update_id,
        bids_raw=some_levels(chance, 100), asks_raw=some_levels(chance, 120),
    )  # fmt: skip


class BothFollow:
    """Connections on both paths that receive the same."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        with in_python():
            self._python = connection("binance")
        self._compiled = connection("binance")
        self._paths = (self._python, self._compiled)
        self._audits: list[tuple[Symbol, Any, Any]] = []
        self._ids = dict.fromkeys(_SYMBOLS, 10)
        self._now_ns = 0

    def step(self) -> None:
        """Let both do something, and compare."""
        chance = self._chance
        kind, symbol = chance.random(), chance.choice((BTC, ETH))
        if self._python.books[symbol].wants_snapshot and chance.random() < 0.5:
            kind = 0.85
        if kind < 0.8:
            events = [self._event() for _ in range(chance.choice((1, 3, 10)))]
            for each in self._paths:
                each._deliver(events)
        elif kind < 0.9:
            snapshot = some_snapshot(chance, symbol, self._ids[symbol] - chance.randrange(3))
            for each in self._paths:
                each.snapshot_arrived(snapshot)
        elif kind < (0.99 if self._audits else 0.93):
            self._audit(symbol)
        elif kind < 0.96:
            copies = chance.random() < 0.2
            for each in self._paths:
                each.books.expect_copies(copies=copies)
        elif kind < 0.98:
            for each in self._paths:
                each.fill_holes([], self._now_ns + 1)
        else:
            for each in self._paths:
                each.book_event(symbol, PriceLeft(), self._now_ns)
        assert books_of(self._python) == books_of(self._compiled)
        assert self._taken(self._python) == self._taken(self._compiled)

    def _audit(self, symbol: Symbol) -> None:
        """Begin an audit, or end the one that runs."""
        if self._audits:
            of, *audits = self._audits.pop()
            findings = []
            for each, audit in zip(self._paths, audits, strict=True):
                each.book_event(of, AuditDone(audit), self._now_ns)
                audit.close()
                findings.append(audit.finding)
            assert findings[0] == findings[1]
        else:
            snapshot = some_snapshot(self._chance, symbol, self._ids[symbol])
            audits = [each.books[symbol].audit(100) for each in self._paths]
            for audit in audits:
                audit.receive(snapshot)
            self._audits.append((symbol, *audits))

    def _event(self) -> Event:
        chance, symbol = self._chance, self._chance.choice(_SYMBOLS)
        self._now_ns += 1
        if chance.random() < 0.2:
            return trade(self._now_ns, BTC, received_at_ns=self._now_ns)
        last = self._ids[symbol]
        first_id: int | None = last + chance.choice((1,) * 150 + (0, -3, 2))
        self._ids[symbol] = last + chance.choice((1,) * 10 + (3, 3, 0))
        final_id: int | None = self._ids[symbol]
        if chance.random() < 0.002:
            first_id = chance.choice(_ODD_IDS)
        if chance.random() < 0.002:
            final_id = chance.choice(_ODD_IDS)
        bids, asks = some_levels(chance, 100), some_levels(chance, 120)
        if chance.random() < 0.005:
            bids, asks = asks, bids  # crossed, most often
        return BookDelta(
            exchange="binance", symbol=symbol, received_at_ns=self._now_ns, at_ns=0,
            first_update_id=first_id, final_update_id=final_id, bids_raw=bids, asks_raw=asks,
        )  # fmt: skip

    @staticmethod
    def _taken(of: Connection) -> tuple[Any, ...]:
        return of.take_events(), of.take_commands(), sorted(map(str, of.books.holes))


def run(seed: int, steps: int) -> int:
    """Compare for so many steps. Raises AssertionError."""
    both = BothFollow(seed)
    for _ in range(steps):
        both.step()
    return steps
