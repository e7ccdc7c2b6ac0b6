"""Compares the exchange's candles with those computed from the trades that were collected."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from penstock.coverage.ledger import Interval
from penstock.dataset.candles import CandleBuilder
from penstock.dataset.merging import TIME
from penstock.dataset.reading import Part, Places, read
from penstock.dataset.times import Range
from penstock.dataset.verify.findings import Finding, finding
from penstock.dataset.verify.ids import is_held
from penstock.market.channels import CANDLES, TRADES
from penstock.market.interval import Interval as CandleInterval
from penstock.storage.log.keys import Stream

_EXACT = ("open", "high", "low", "close", "volume", "taker_buy_volume")
_ROUNDED = ("quote_volume", "taker_buy_quote_volume")
"""Sums of products: exchanges send fewer digits than the exact result has."""
_COUNTED = ("trades", "first_trade_id", "last_trade_id")
_MS_NS = 1_000_000


class CandleCheck:
    """The candles of one market and interval."""

    def __init__(self, places: Places, candles: Stream) -> None:
        self._places, self._stream = places, candles
        self._interval = CandleInterval.parse(CANDLES.suffix_in(candles.channel))
        self.compared = 0

    def run(self, trades: Iterable[Interval]) -> Iterator[Finding]:
        """Compare the candles of all intervals whose trades are complete."""
        for since_ms, until_ms in _whole(trades):
            yield from self._between(since_ms, until_ms)

    def _between(self, since_ms: int, until_ms: int) -> Iterator[Finding]:
        interval = self._interval
        # Of the first and last millisecond some trades may be on the other side.
        first_ms = interval.next_open(interval.open_of(since_ms))
        end_ms = interval.open_of(until_ms)
        if first_ms >= end_ms:
            return
        times = Range(first_ms * _MS_NS, end_ms * _MS_NS)
        builder = CandleBuilder(interval)
        traded = Part(TRADES, [self._stream._replace(channel=TRADES.name)])
        for frame in read(self._places, traded, times):
            builder.add(frame)
        made = {row["open_ms"]: row for row in _rows([builder.candles(end_ms, "skip")])}
        stored = read(self._places, Part(CANDLES, [self._stream]), times)
        for row in _rows(stored):
            self.compared += 1
            yield from self._compare(row, made.get(row[TIME] // _MS_NS))

    def _compare(self, stored: dict[str, Any], made: dict[str, Any] | None) -> Iterator[Finding]:
        open_ms = stored[TIME] // _MS_NS
        if made is None:
            if stored["volume"]:
                problem = f"the candle has a volume of {_text(stored['volume'])}, but no trades"
                yield finding("candles", self._stream, problem, at_ms=open_ms)
            return
        differing = [
            f"{name} {_text(stored[name])} but {_text(made[name])} from trades"
            for name in (*_EXACT, *_ROUNDED, *_COUNTED)
            if not _equal(name, stored, made)
        ]
        if differing:
            yield finding("candles", self._stream, "; ".join(differing), at_ms=open_ms)


def _whole(trades: Iterable[Interval]) -> list[tuple[int, int]]:
    """The ranges of time (ms) in which all trades are there."""
    found: list[tuple[int, int]] = []
    last_id: int | None = None
    for each in trades:
        if not is_held(each):
            continue
        since_ms, until_ms = each.since_ms, each.until_ms
        if since_ms is None or until_ms is None:
            last_id = each.last if last_id is not None and each.first == last_id + 1 else None
            continue
        if found and last_id is not None and each.first == last_id + 1:
            found[-1] = found[-1][0], max(found[-1][1], until_ms)
        else:
            found.append((since_ms, until_ms))
        last_id = each.last
    return found


def _rows(frames: Iterable[pl.DataFrame]) -> Iterator[dict[str, Any]]:
    for frame in frames:
        yield from frame.iter_rows(named=True)


def _equal(name: str, stored: dict[str, Any], made: dict[str, Any]) -> bool:
    sent, exact = stored[name], made[name]
    if sent is None:
        return True
    if name in _ROUNDED:
        digits = stored[f"{name}_digits"] or 0
        # However it was rounded: up, down or to the nearest.
        return abs(Decimal(sent) - Decimal(exact)) < Decimal(1).scaleb(-digits)
    return bool(sent == exact)


def _text(value: object) -> str:
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def candle_streams(streams: Iterable[Stream]) -> Sequence[Stream]:
    """The streams of candles of markets whose trades are collected too."""
    found = set(streams)
    return sorted(
        each
        for each in found
        if each.channel.startswith(f"{CANDLES.name}_")
        and each._replace(channel=TRADES.name) in found
    )
