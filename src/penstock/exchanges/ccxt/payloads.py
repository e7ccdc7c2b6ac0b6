"""Converts rows from ccxt's methods (``library/calls.py``) to events.

ccxt returns the responses of all exchanges in one form. A field that an exchange does not provide
is None, and rejected here if an event requires it. Ids are numbers here: a text id becomes a number
that no other text results in, and a trade without an id gets one that is a hash of its contents.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from penstock.errors import MalformedSymbol
from penstock.exchanges.answers import (
    Text,
    Whole,
    decoded,
    plain_number,
    step_text,
    surely_over_ms,
)
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails, SymbolMap
from penstock.exchanges.times import MS_NS, Millis
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol

Id = Annotated[str, Meta(max_length=200, pattern="^[!-~]+$")]
# Text ids become numbers of more bytes than this, so that they differ from numeric ids.
_TEXT_BYTES = 24


class _Market(Struct):
    """{"id":"BTC-USDT","symbol":"BTC/USDT","base":"BTC","quote":"USDT","spot":true,"active":null,
    "tick_size":"0.01","lot_size":null}"""

    id: str
    symbol: str
    base: str | None
    quote: str | None
    spot: bool | None = None
    active: bool | None = None
    tick_size: object = None
    lot_size: object = None


class _Trade(Struct):
    """{"id":"9012","at_ms":1762820248123,"price":"105944.3","quantity":"0.1","side":"buy"}"""

    at_ms: Millis
    price: Text
    quantity: Text
    side: Literal["buy", "sell"]
    id: Id | None = None


class _Book(Struct):
    """{"nonce":71,"at_ms":null,"bids":[["105944.2","0.1"]],"asks":[["105944.3","0.2"]]}"""

    bids: list[tuple[Text, Text]]
    asks: list[tuple[Text, Text]]
    nonce: Whole | None = None
    at_ms: Millis | None = None


class _Candle(Struct, array_like=True):
    """[1762777020000,"105433.6","105433.6","105433.6","105433.6","0.5"]"""

    open_ms: Whole
    open: Text
    high: Text
    low: Text
    close: Text
    volume: Text


class _Ticker(Struct):
    """{"symbol":"BTC/USDT","at_ms":null,"bid":"105944.2",…}; missing fields are null"""

    symbol: str
    at_ms: Millis | None = None
    bid: Text | None = None
    bid_quantity: Text | None = None
    ask: Text | None = None
    ask_quantity: Text | None = None
    last: Text | None = None
    open: Text | None = None
    high: Text | None = None
    low: Text | None = None
    volume: Text | None = None
    quote_volume: Text | None = None


_decode_time = msgspec.json.Decoder(Whole).decode
_decode_markets = msgspec.json.Decoder(list[_Market]).decode
_decode_trades = msgspec.json.Decoder(list[_Trade]).decode
_decode_book = msgspec.json.Decoder(_Book).decode
_decode_candles = msgspec.json.Decoder(list[_Candle]).decode
_decode_tickers = msgspec.json.Decoder(list[_Ticker]).decode


def read_time(body: bytes, _received_at_ns: int) -> int:
    """The exchange's clock, in ms."""
    return decoded(_decode_time, body)


def read_info(exchange: str, body: bytes) -> Info:
    """The markets listed for spot trading; ccxt announces no limits besides its built-in ones."""
    listed: dict[Symbol, ListedMarket] = {}
    for market in decoded(_decode_markets, body):
        if not market.spot or market.active is False or not (market.base and market.quote):
            continue
        try:
            symbol = Symbol(market.base, market.quote)
        except MalformedSymbol:
            continue  # one bad name must not hide the others
        # The first of two markets with the same symbol: ccxt finds markets in this order too.
        tick, lot = step_text(market.tick_size), step_text(market.lot_size)
        details = MarketDetails(tick, lot, "active" if market.active else None)
        listed.setdefault(symbol, ListedMarket(market.id, symbol, market.symbol, details=details))
    return Info(SymbolMap(exchange, listed.values()), ())


def read_trades(
    exchange: str, symbol: Symbol, body: bytes, received_at_ns: int, source: Source
) -> list[Trade]:
    """Trades, oldest first."""
    alike: Counter[str] = Counter()
    rows = decoded(_decode_trades, body)
    return [
        Trade(
            exchange=exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source=source,
            id=_id_of(row, alike),
            at_ns=row.at_ms * MS_NS,
            price_text=plain_number(row.price),
            quantity_text=plain_number(row.quantity),
            taker=row.side,
        )
        for row in sorted(rows, key=lambda row: row.at_ms)
    ]


def _id_of(row: _Trade, alike: "Counter[str]") -> int:
    if row.id is not None:
        return number_of(row.id)
    said = f"{row.at_ms} {row.side} {row.price} {row.quantity}"
    alike[said] += 1
    return number_of("=" + blake2b(f"{said} {alike[said]}".encode(), digest_size=10).hexdigest())


def number_of(text: str) -> int:
    """The number of an id: the id itself if numeric, else a number that no other id results in."""
    if text.isascii() and text.isdecimal() and (text == "0" or not text.startswith("0")):
        return int(text)
    return int.from_bytes(b"\xff" + text.encode().rjust(_TEXT_BYTES, b"\0"))


def read_book(
    exchange: str, symbol: Symbol, body: bytes, received_at_ns: int, source: Source
) -> BookSnapshot:
    """A book's best levels."""
    row = decoded(_decode_book, body)
    return BookSnapshot(
        exchange=exchange,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source=source,
        update_id=row.nonce or 0,
        at_ns=None if row.at_ms is None else row.at_ms * MS_NS,
        bids_raw=write_levels((plain_number(p), plain_number(q)) for p, q in row.bids),
        asks_raw=write_levels((plain_number(p), plain_number(q)) for p, q in row.asks),
    )


def read_candles(
    exchange: str, symbol: Symbol, interval: Interval, body: bytes, received_at_ns: int
) -> list[Candle]:
    """Candles, oldest first; closed once they have certainly ended, see ``surely_over_ms``."""
    over_ms = surely_over_ms(received_at_ns)
    rows = {row.open_ms: row for row in decoded(_decode_candles, body)}
    return [
        Candle(
            exchange=exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source="rest",
            interval=interval.text,
            open_ms=open_ms,
            close_ms=interval.next_open(open_ms) - 1,
            open_text=plain_number(row.open),
            high_text=plain_number(row.high),
            low_text=plain_number(row.low),
            close_text=plain_number(row.close),
            volume_text=plain_number(row.volume),
            closed=interval.next_open(open_ms) <= over_ms,
        )
        for open_ms, row in sorted(rows.items())
    ]


def read_tickers(
    exchange: str, by_name: Mapping[str, Symbol], body: bytes, received_at_ns: int, source: Source
) -> list[Ticker]:
    """Tickers of these markets, by ccxt's names; rows of other markets are skipped."""
    rows = [(row, by_name.get(row.symbol)) for row in decoded(_decode_tickers, body)]
    return [
        _ticker(exchange, row, symbol, received_at_ns, source) for row, symbol in rows if symbol
    ]


def _ticker(
    exchange: str, row: _Ticker, symbol: Symbol, received_at_ns: int, source: Source
) -> Ticker:
    return Ticker(
        exchange=exchange,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source=source,
        at_ns=None if row.at_ms is None else row.at_ms * MS_NS,
        bid_text=_plain(row.bid),
        bid_quantity_text=_plain(row.bid_quantity),
        ask_text=_plain(row.ask),
        ask_quantity_text=_plain(row.ask_quantity),
        last_text=_plain(row.last),
        open_text=_plain(row.open),
        high_text=_plain(row.high),
        low_text=_plain(row.low),
        volume_text=_plain(row.volume),
        quote_volume_text=_plain(row.quote_volume),
    )


def _plain(text: str | None) -> str | None:
    return None if text is None else plain_number(text)
