"""Two writers of one slot, one on each path, that must always agree; and events to append to it."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw
from tests import events
from tests.compiled.appended import BothForms
from tests.compiled.frames import Chance
from tests.paths import in_python

from penstock.market.events import Disconnect, Event
from penstock.market.symbol import Symbol
from penstock.storage.log import Stored
from penstock.storage.log.keys import PLAIN_IDS, Stream, key_of_id
from penstock.storage.log.memory import MemoryPairs
from penstock.storage.log.writer import SlotWriter

SECOND_NS = 1_000_000_000
NOON_NS = 1_700_000_000 * SECOND_NS
BTC_TRADES = Stream("sim", "trades", "btc_usdt")
SYMBOLS = tuple(Symbol(base, "USDT") for base in ("BTC", "ETH", "ÄÖ", 'Q"'))
_EXCHANGES = ("sim", "sim", "sim", "sim", "binance", "é\\")
_KINDS = ("trade", "trade", "delta", "ticker", "snapshot", "candle", "disconnect")
_TEXTS = ("", "é", "\u2028", "\x7f", "漢字" * 30, "9" * 5_000)
_ESCAPED = ('"', "\\", "\x00", "\x1f", "1\n", '0.1"' + "7" * 300)
_NOT_TEXTS: tuple[Any, ...] = (True, False, None, 1.5, 7, -7, 2**63, -(2**63), b"x", Raw(b"[7]"))
_NUMBERS = (0, -1, 2**63 - 1, 2**63, 2**64, 2**200, -(2**63), -(2**63) - 1, True, None)
_IDS = (-1, 2**63 - 2, 2**63 - 1, 2**63, PLAIN_IDS - 1, PLAIN_IDS, 2**64, 2**70)
_LONG = Raw(b"[" + b'["1","2"],' * 2_000 + '["é","4"]]'.encode())
_NOT_JSON = tuple(map(Raw, (b"", b"x y", b"\xff", b'"\\')))


class Made:
    """Events from a seed, mostly as a collector receives them."""

    def __init__(self, chance: Chance) -> None:
        self.chance, self.at_ns = chance, NOON_NS
        # Where the last record cannot be read, no other is appended.
        self._raws = _NOT_JSON if chance.random() < 0.1 else (_LONG, events.NOTHING)
        self._ids: dict[object, int] = defaultdict(lambda: chance.choice((0, 10**9)))

    def some(self, most: int) -> list[Event]:
        """A batch of events."""
        self.chance.odd = self.chance.random() < 0.3
        return [self.one() for _ in range(self.chance.randrange(1, most + 1))]

    def _rarely(self, share: float) -> bool:
        """Whether something unusual happens: never in most batches."""
        return self.chance.odd and self.chance.random() < share

    def one(self) -> Event:
        chance = self.chance
        self.at_ns += chance.choice((1, 1_000, 1_000, 1_000_000))
        if self._rarely(0.1):
            self.at_ns -= 1
        if self._rarely(0.02):
            self.at_ns += chance.choice((-1, -2, 1, 2)) * SECOND_NS
        symbol = chance.choice(SYMBOLS[:2] if chance.random() < 0.9 else SYMBOLS)
        common = {
            "symbol": symbol,
            # Often another object than the last one that is equal.
            "exchange": "".join(chance.choice(_EXCHANGES)),
            "received_at_ns": self._received_ns(),
        }
        if chance.random() < 0.1:
            common["source"] = chance.choice(("live", "".join(("li", "ve")), "rest", 'b"'))
        return self._event(common)

    def _received_ns(self) -> int:
        if self._rarely(0.002):
            return self.chance.choice((-1, -SECOND_NS, 0, 2**63 - 1, 2**63, 2**64 - 1, 2**64))
        return self.at_ns

    def _event(self, common: dict[str, Any]) -> Event:
        kind = self.chance.choice(_KINDS if self.chance.odd else _KINDS[:5])
        if kind == "trade":
            return events.trade(
                self._id(common), at_ns=self._number(), price_text=self._text(),
                quantity_text=self._text(), taker=self._text("buy", "sell"), **common,
            )  # fmt: skip
        if kind == "delta":
            final = None if self.chance.random() < 0.05 else self._id(common)
            return events.delta(
                self._number(), final, at_ns=self._number(), bids_raw=self._raw(),
                asks_raw=self._raw(), checksum=self.chance.choice((None, None, 7)), **common,
            )  # fmt: skip
        if kind == "ticker":
            update_id = self._id(common) if common["symbol"] is SYMBOLS[1] else None
            return events.ticker(update_id=update_id, bid_text=self._text(), **common)
        if kind == "snapshot":
            return events.snapshot(self._number(), bids_raw=self._raw(), **common)
        if kind == "candle":
            opens, closed = self.chance.randrange(5), self.chance.random() < 0.7
            return events.candle(opens, closed=closed, close_text=self._text(), **common)
        return Disconnect(channels=("trades",), reason=self._text(), **common)

    def _id(self, common: dict[str, Any]) -> int:
        """Mostly rising by one per market, as those of an exchange."""
        chance, address = self.chance, common["symbol"]
        if self._rarely(0.005):
            return chance.choice(_IDS)
        if self._rarely(0.02):
            return max(self._ids[address] - chance.randrange(20), 0)
        self._ids[address] += 1
        return self._ids[address]

    def _number(self) -> Any:
        return self.chance.choice(_NUMBERS) if self._rarely(0.02) else self.at_ns - 5

    def _text(self, *usual: str) -> Any:
        if self._rarely(0.0005):
            return "\ud800"
        if self._rarely(0.01):
            return self.chance.choice(_ESCAPED)
        if self._rarely(0.01):
            return self.chance.choice(_NOT_TEXTS)
        if self.chance.random() < 0.03:
            return self.chance.choice(_TEXTS)
        return self.chance.choice(usual or ("60000.10", "0.001", "3", "".join(("60", "1.5"))))

    def _raw(self) -> Raw:
        if self.chance.random() < 0.02:
            return self.chance.choice(self._raws)
        return Raw(b'[["1","2"],["3","4"]]')


class Refused(Exception):
    """A put that fails."""


class _Changes:
    """Changes, of which one put may fail."""

    def __init__(self, inner: Any, fails_at: int) -> None:
        self.inner, self.fails_at = inner, fails_at
        self.delete_range = inner.delete_range

    def put(self, key: bytes, value: bytes, /) -> None:
        self.fails_at -= 1
        if not self.fails_at:
            raise Refused
        self.inner.put(key, value)


def failing_changes(fails_at: int) -> Any:
    """Changes of no slot, of which one put fails, counted from 1."""
    return _Changes(MemoryPairs().batch(), fails_at)


class _Pairs(MemoryPairs):
    """Pairs in memory that can be told to fail."""

    fails_at = 0

    def batch(self) -> Any:
        return _Changes(super().batch(), self.fails_at)

    def write(self, batch: Any, *, sync: bool) -> None:
        super().write(batch.inner, sync=sync)


class BothWriters:
    """A slot of its own on each path."""

    def __init__(self, chance: Chance | None = None) -> None:
        self.pairs, self._forms = (_Pairs(), _Pairs()), BothForms(chance or Chance(0))
        self.open()

    def open(self) -> None:
        """Open both anew, as after a restart."""
        ours, theirs = self.pairs
        with in_python():
            self.python = SlotWriter("a", lambda: theirs)
        self.compiled = SlotWriter("a", lambda: ours)

    def append(self, batch: Sequence[Event], *, fails_at: int = 0) -> int:
        """Append to both; return how many records it made. A put may fail, counted from 1."""
        for pairs in self.pairs:
            pairs.fails_at = fails_at
        told = self._same(lambda writer: self._appended(writer, batch), any_error=fails_at > 0)
        self.compare()
        return sum(map(len, told.values())) if isinstance(told, dict) else 0

    def _appended(self, writer: SlotWriter, batch: Sequence[Event]) -> object:
        stored = writer.append(batch)
        if writer is self.compiled:
            self._forms.take(stored)
        return _by_stream(stored)

    def _same(self, call: Callable[[SlotWriter], object], *, any_error: bool = False) -> object:
        """What both return or raise, which is the same; perhaps not the same error."""
        ours, theirs = _told(call, self.compiled), _told(call, self.python)
        if any_error and isinstance(ours, tuple):
            assert isinstance(theirs, tuple)
        else:
            assert ours == theirs
        return ours

    def compare(self) -> None:
        """Check that both slots are the same, and what both know of them."""
        ours, theirs = (list(pairs.scan(b"", b"\xff" * 9)) for pairs in self.pairs)
        assert ours == theirs
        assert self.compiled.counts == self.python.counts
        self._same(SlotWriter.last_numbers)

    def disturb(self, chance: Chance) -> None:
        """Do something else with both slots."""
        what = chance.choice(("open", "skip", "delete"))
        stream = Stream("sim", chance.choice(("trades", "tickers")), chance.choice(SYMBOLS).slug)
        number, key = chance.randrange(1_000), key_of_id(chance.randrange(30))
        if what == "open":
            self.open()
        elif what == "skip":
            self._same(lambda writer: writer.skip_numbers({stream: number}))
        else:
            self._same(lambda writer: writer.delete_below(stream, key))
        self.compare()


def _told(call: Callable[[SlotWriter], object], writer: SlotWriter) -> object:
    """What it returns, or a tuple with what it raises."""
    try:
        return call(writer)
    except Exception as error:
        return type(error), str(error)


def _by_stream(stored: Sequence[Stored]) -> dict[Stream, list[object]]:
    """In the order of each stream; that of the streams among each other is open."""
    found: dict[Stream, list[object]] = {}
    for each in stored:
        found.setdefault(each.stream, []).append(_values(each))
    return found


def _values(stored: Stored) -> tuple[object, ...]:
    assert type(stored) is Stored
    values = {name: getattr(stored, name) for name in Stored.__struct_fields__}
    known = values.pop("known")
    return id(known), *((type(value), value) for value in values.values())


def run(seed: int, rounds: int) -> int:
    """Append batches to both; return the number of records. Raises AssertionError."""
    chance = Chance(seed)
    made, both, records = Made(chance), BothWriters(chance), 0
    for _ in range(rounds):
        batch = made.some(chance.choice((1, 5, 5, 50, 50, 300)))
        fails = chance.random() < 0.01
        records += both.append(batch, fails_at=chance.randrange(1, len(batch) + 5) if fails else 0)
        if chance.random() < 0.03:
            both.disturb(chance)
    return records
