"""Makes events from the rows of streams, in the same way for every exchange.

Constructors are written out here, since a further call costs a busy stream more than two percent.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, ValidationError

from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.rows import LIVE, book_of, candle_of, ticker_of
from penstock.exchanges.times import MS_NS, epoch_ns
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Side,
    Source,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.interval import COMMON, Interval
from penstock.market.symbol import Symbol

_INTERVALS = {text: Interval.parse(text) for text in COMMON}


class BookRow:
    """The optional field of a book or a change of it; see ``TickerRow``."""

    __slots__ = ()

    checksum: Any = None


class DatedEvents:
    """Makes events from the rows of a stream that have their time as text, in a field ``at``.

    Numbers are added to ``deferred``; levels are valid already.
    """

    def __init__(
        self, exchange: str, takers: Mapping[str, Side], deferred: DeferredNumbers
    ) -> None:
        """``takers`` has the taker's side by the side in rows."""
        self._exchange, self._takers = exchange, takers
        self._texts, self._spell = deferred.texts, deferred.spell

    def trade(self, row: Any, symbol: Symbol, received_at_ns: int) -> Trade:
        price, quantity = row.price, row.quantity
        if type(price) is not str or type(quantity) is not str:
            price, quantity = str(price), str(quantity)
        self._texts += price, quantity
        return Trade(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            id=row.id,
            at_ns=epoch_ns(row.at),
            price_text=price,
            quantity_text=quantity,
            taker=self._takers[row.side],
        )

    def delta(
        self, row: Any, symbol: Symbol, received_at_ns: int, levels: Iterator[Raw]
    ) -> BookDelta:
        if row.at is None:
            raise ValidationError("a change without a time")
        return BookDelta(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            at_ns=epoch_ns(row.at),
            bids_raw=next(levels),
            asks_raw=next(levels),
            checksum=row.checksum,
        )

    def snapshot(
        self, row: Any, symbol: Symbol, received_at_ns: int, levels: Iterator[Raw]
    ) -> BookSnapshot:
        return BookSnapshot(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            at_ns=None if row.at is None else epoch_ns(row.at),
            bids_raw=next(levels),
            asks_raw=next(levels),
            checksum=row.checksum,
        )

    def ticker(self, row: Any, symbol: Symbol, received_at_ns: int) -> Ticker:
        origin = self._exchange, symbol, received_at_ns, LIVE
        return ticker_of(row, origin, None if row.at is None else epoch_ns(row.at), self._spell)

    def candle(self, row: Any, symbol: Symbol, interval: Interval, received_at_ns: int) -> Candle:
        """A candle that is not marked as closed; ``open_at`` is when it opened."""
        open_ms = epoch_ns(row.open_at) // MS_NS
        origin = self._exchange, symbol, received_at_ns, LIVE
        return candle_of(row, origin, interval, open_ms, closed=False, spell=self._spell)


class StampedEvents:
    """The same for rows that have their time in milliseconds, in a field ``at_ms``.

    Numbers and levels are added to ``deferred``.
    """

    def __init__(self, exchange: str, deferred: DeferredNumbers) -> None:
        self._exchange = exchange
        self._texts, self._levels, self._spell = deferred.texts, deferred.levels, deferred.spell

    def trade(self, row: Any, symbol: Symbol, received_at_ns: int) -> Trade:
        price, quantity, texts = row.price, row.quantity, self._texts
        texts.append(price)
        texts.append(quantity)
        return Trade(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            id=row.id,
            at_ns=row.at_ms * MS_NS,
            price_text=price,
            quantity_text=quantity,
            taker="sell" if row.maker_bought else "buy",
        )

    def agg_trade(
        self, row: Any, symbol: Symbol, received_at_ns: int, source: Source = LIVE
    ) -> AggTrade:
        price, quantity, first_id, last_id = row.price, row.quantity, row.first_id, row.last_id
        texts = self._texts
        texts.append(price)
        texts.append(quantity)
        if first_id > last_id:
            raise ValidationError(f"trades {first_id} to {last_id} run backwards")
        return AggTrade(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source=source,
            id=row.id,
            first_trade_id=first_id,
            last_trade_id=last_id,
            at_ns=row.at_ms * MS_NS,
            price_text=price,
            quantity_text=quantity,
            taker="sell" if row.maker_bought else "buy",
        )

    def delta(self, row: Any, symbol: Symbol, received_at_ns: int) -> BookDelta:
        first_id, final_id, bids, asks = row.first_id, row.final_id, row.bids, row.asks
        levels = self._levels
        levels.append(bids)
        levels.append(asks)
        if first_id > final_id:
            raise ValidationError(f"updates {first_id} to {final_id} run backwards")
        return BookDelta(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            first_update_id=first_id,
            final_update_id=final_id,
            at_ns=row.at_ms * MS_NS,
            bids_raw=bids,
            asks_raw=asks,
        )

    def snapshot(self, row: Any, symbol: Symbol, received_at_ns: int) -> BookSnapshot:
        """The book in a row that has no time."""
        bids, asks = row.bids, row.asks
        self._levels.extend((bids, asks))
        origin = self._exchange, symbol, received_at_ns, LIVE
        return book_of(origin, bids, asks, update_id=row.update_id)

    def best(self, row: Any, symbol: Symbol, received_at_ns: int) -> Ticker:
        """The best bid and ask in a row that has no time."""
        bid, bid_quantity = row.bid, row.bid_quantity
        ask, ask_quantity = row.ask, row.ask_quantity
        self._texts.extend((bid, bid_quantity, ask, ask_quantity))
        return Ticker(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            update_id=row.update_id,
            bid_text=bid,
            bid_quantity_text=bid_quantity,
            ask_text=ask,
            ask_quantity_text=ask_quantity,
        )

    def ticker_24h(self, row: Any, symbol: Symbol, received_at_ns: int) -> Ticker24h:
        origin = self._exchange, symbol, received_at_ns, LIVE
        return ticker_of(row, origin, row.at_ms * MS_NS, self._spell, Ticker24h)

    def candle(self, row: Any, symbol: Symbol, received_at_ns: int) -> Candle:
        interval, origin = _INTERVALS[row.interval], (self._exchange, symbol, received_at_ns, LIVE)
        return candle_of(row, origin, interval, row.open_ms, closed=row.closed, spell=self._spell)
