"""Recorded events as Binance sends them, with times in milliseconds."""

import re
from collections.abc import Iterable, Mapping, Sequence

from penstock.market.channels import (
    AGG_TRADES,
    BOOK_DELTAS,
    BOOK_SNAPSHOTS,
    CANDLES,
    TICKERS,
    TICKERS_24H,
    TRADES,
)
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Event,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.levels import split_levels
from penstock.market.symbol import Symbol
from penstock.playback.native import Answer, NativeExchange, Recorded, Wanted
from penstock.playback.native.formats import MS_NS, number, text
from penstock.simulator.engine.exchange import Query, Reply

_CHANNELS = {
    "trade": TRADES.name,
    "aggTrade": AGG_TRADES.name,
    "depth": BOOK_DELTAS.name,
    "depth@100ms": BOOK_DELTAS.name,
    "depth20": BOOK_SNAPSHOTS.name,
    "depth20@100ms": BOOK_SNAPSHOTS.name,
    "bookTicker": TICKERS.name,
    "ticker": TICKERS_24H.name,
}
_DAY_MS = 86_400_000
_TOP, _LEVELS, _ROWS = 20, 100, 500
"""Levels of a partial book, and the exchange's default numbers of levels and of trades."""
_KLINE = re.compile(r"kline_(\w+)")
_NO_BOOK = Reply(b'{"code":-1000,"msg":"The recording has no book of this symbol yet."}', 503)
_NO_SYMBOL = Reply(b'{"code":-1121,"msg":"Invalid symbol."}', 400)


def make(symbols: Iterable[Symbol]) -> NativeExchange:
    """The formats for these markets."""
    return Binance(symbols)


class Binance:
    """See ``NativeExchange``."""

    kept: Sequence[str] = ("/api/v3/exchangeInfo", "/api/v3/ping", "/api/v3/time")
    heartbeats: Sequence[str] = ()

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._symbols = {_name(symbol): symbol for symbol in symbols}
        self.answers: Mapping[str, Answer] = {
            "/api/v3/depth": self._depth,
            "/api/v3/trades": self._trades,
        }

    def wanted(self, stream: str) -> Wanted | None:
        """See ``NativeExchange``."""
        name, _, kind = stream.partition("@")
        symbol = self._symbols.get(name.upper())
        channel = _CHANNELS.get(kind)
        if found := _KLINE.fullmatch(kind):
            channel = CANDLES.named(found[1])
        return None if symbol is None or channel is None else Wanted(symbol, (channel,))

    def opening(self, book: BookSnapshot, stream: str) -> list[bytes]:  # noqa: ARG002 - as the port
        """No frames: a book begins with a request."""
        return []

    def frames(self, event: Event, stream: str) -> list[bytes]:  # noqa: ARG002 - as the port
        """See ``NativeExchange``."""
        name = _name(event.symbol)
        match event:
            case Trade():
                body = (
                    f'"e":"trade","E":{event.at_ms},"s":"{name}","t":{event.id},'
                    f'"p":"{event.price_text}","q":"{event.quantity_text}","T":{event.at_ms},'
                    f'"m":{_maker_bought(event)},"M":true'
                )
            case AggTrade():
                body = (
                    f'"e":"aggTrade","E":{event.at_ms},"s":"{name}","a":{event.id},'
                    f'"p":"{event.price_text}","q":"{event.quantity_text}",'
                    f'"f":{event.first_trade_id},"l":{event.last_trade_id},"T":{event.at_ms},'
                    f'"m":{_maker_bought(event)},"M":true'
                )
            case BookDelta():
                body = (
                    f'"e":"depthUpdate","E":{event.at_ms},"s":"{name}",'
                    f'"U":{event.first_update_id},"u":{event.final_update_id},'
                    f'"b":{text(event.bids_raw)},"a":{text(event.asks_raw)}'
                )
            case BookSnapshot():
                if event.source != "live" or len(split_levels(event.bids_raw)) > _TOP:
                    return []  # fetched, or recorded of a whole book
                body = _book(event)
            case Ticker24h():
                body = _day_ticker(event, name)
            case Ticker():
                body = (
                    f'"u":{event.update_id},"s":"{name}","b":"{event.bid_text}",'
                    f'"B":"{event.bid_quantity_text}","a":"{event.ask_text}",'
                    f'"A":"{event.ask_quantity_text}"'
                )
            case Candle():
                body = _candle(event, name)
            case _:
                return []
        return [f"{{{body}}}".encode()]

    def _depth(self, query: Query, recorded: Recorded) -> bytes | Reply:
        symbol = self._symbols.get(query.get("symbol", ""))
        if symbol is None:
            return _NO_SYMBOL
        book = recorded.book(symbol)
        if book is None:
            return _NO_BOOK
        return f"{{{_book(book, number(query, 'limit') or _LEVELS)}}}".encode()

    def _trades(self, query: Query, recorded: Recorded) -> bytes | Reply:
        symbol = self._symbols.get(query.get("symbol", ""))
        if symbol is None:
            return _NO_SYMBOL
        rows = [
            f'{{"id":{each.id},"price":"{each.price_text}","qty":"{each.quantity_text}",'
            f'"quoteQty":"{each.price * each.quantity:f}","time":{each.at_ms},'
            f'"isBuyerMaker":{_maker_bought(each)},"isBestMatch":true}}'
            for each in recorded.trades(symbol)[-(number(query, "limit") or _ROWS) :]
        ]
        return f"[{','.join(rows)}]".encode()


def _name(symbol: Symbol) -> str:
    return symbol.base + symbol.quote


def _maker_bought(event: Trade | AggTrade) -> str:
    return "true" if event.taker == "sell" else "false"


def _book(book: BookSnapshot, most: int | None = None) -> str:
    levels = f'"bids":{text(book.bids_raw, most)},"asks":{text(book.asks_raw, most)}'
    return f'"lastUpdateId":{book.update_id},{levels}'


def _day_ticker(event: Ticker24h, name: str) -> str:
    at_ms = (event.at_ns or 0) // MS_NS
    last, opened = event.last_text or "0", event.open_text or "0"
    return (
        f'"e":"24hrTicker","E":{at_ms},"s":"{name}","p":"0","P":"0","w":"0","x":"{opened}",'
        f'"c":"{last}","Q":"0","b":"{event.bid_text}","B":"{event.bid_quantity_text}",'
        f'"a":"{event.ask_text}","A":"{event.ask_quantity_text}","o":"{opened}",'
        f'"h":"{event.high_text}","l":"{event.low_text}","v":"{event.volume_text}",'
        f'"q":"{event.quote_volume_text}","O":{at_ms - _DAY_MS},"C":{at_ms},"F":0,"L":0,"n":0'
    )


def _candle(event: Candle, name: str) -> str:
    first, last = event.first_trade_id, event.last_trade_id
    return (
        f'"e":"kline","E":{event.close_ms + 1},"s":"{name}","k":{{"t":{event.open_ms},'
        f'"T":{event.close_ms},"s":"{name}","i":"{event.interval}",'
        f'"f":{-1 if first is None else first},"L":{-1 if last is None else last},'
        f'"o":"{event.open_text}","c":"{event.close_text}","h":"{event.high_text}",'
        f'"l":"{event.low_text}","v":"{event.volume_text}","n":{event.trades or 0},"x":true,'
        f'"q":"{event.quote_volume_text or 0}","V":"{event.taker_buy_volume_text or 0}",'
        f'"Q":"{event.taker_buy_quote_volume_text or 0}","B":"0"}}'
    )
