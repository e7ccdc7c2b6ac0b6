"""Recorded events as Upbit sends them, in any of its four formats."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from penstock.market.channels import BOOK_SNAPSHOTS, TICKERS, TRADES
from penstock.market.events import BookSnapshot, Event, Ticker, Trade
from penstock.market.levels import split_levels
from penstock.market.symbol import Symbol
from penstock.playback.native import Answer, NativeExchange, Recorded, Wanted
from penstock.playback.native.formats import MS_NS, number
from penstock.simulator.engine.exchange import Query, Reply
from penstock.simulator.upbit.control import read_name
from penstock.simulator.upbit.formats import FORMATS, encode, part
from penstock.simulator.upbit.ticker import Fields

_CHANNELS = {"trade": TRADES.name, "orderbook": BOOK_SNAPSHOTS.name, "ticker": TICKERS.name}
_SIDES = {"buy": "BID", "sell": "ASK"}
_NOTHING = ("0.0", "0.0")
_NOT_FOUND = Reply(b'{"error":{"name":404,"message":"Code not found"}}', 404)


def make(symbols: Iterable[Symbol]) -> NativeExchange:
    """The formats for these markets."""
    return Upbit(symbols)


class Upbit:
    """See ``NativeExchange``."""

    kept: Sequence[str] = ("/v1/market/all", "/v1/orderbook/instruments")
    heartbeats: Sequence[str] = ()

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._symbols = {_code(symbol): symbol for symbol in symbols}
        self.answers: Mapping[str, Answer] = {
            "/v1/orderbook": self._books,
            "/v1/trades/ticks": self._trades,
        }

    def wanted(self, stream: str) -> Wanted | None:
        """See ``NativeExchange``."""
        name = read_name(stream)
        symbol = self._symbols.get(name.code.partition(".")[0])
        channel = _CHANNELS.get(name.type)
        return None if symbol is None or channel is None else Wanted(symbol, (channel,))

    def opening(self, book: BookSnapshot, stream: str) -> list[bytes]:
        """The whole book."""
        return self._encoded(_Book(book, self._units(stream)), stream, "SNAPSHOT")

    def frames(self, event: Event, stream: str) -> list[bytes]:
        """See ``NativeExchange``."""
        fields: Fields | _Book
        match event:
            case Trade():
                fields = _trade(event)
            case BookSnapshot():
                fields = _Book(event, self._units(stream))
            case Ticker():
                fields = _ticker(event)
            case _:
                return []
        return self._encoded(fields, stream, "REALTIME")

    def _encoded(self, fields: "Fields | _Book", stream: str, kind: str) -> list[bytes]:
        form = read_name(stream).form
        if isinstance(fields, _Book):
            fields = fields.fields(form)
        return [encode({**fields, "stream_type": f'"{kind}"'}, form)]

    def _units(self, stream: str) -> int | None:
        units = read_name(stream).code.partition(".")[2]
        return int(units) if units else None

    def _books(self, query: Query, recorded: Recorded) -> bytes | Reply:
        found = []
        for code in query.get("markets", "").split(","):
            symbol = self._symbols.get(code)
            book = recorded.book(symbol) if symbol is not None else None
            if book is None:
                return _NOT_FOUND
            fields = _Book(book, number(query, "count")).fields(FORMATS[0])
            fields.pop("type")
            found.append(part({"market": fields.pop("code"), **fields}, FORMATS[0]))
        return f"[{','.join(found)}]".encode()

    def _trades(self, query: Query, recorded: Recorded) -> bytes | Reply:
        symbol = self._symbols.get(query.get("market", ""))
        if symbol is None:
            return _NOT_FOUND
        latest = [*reversed(recorded.trades(symbol))][: number(query, "count") or 1]
        rows = [
            f'{{"market":"{_code(symbol)}","trade_date_utc":"{_at(each):%Y-%m-%d}",'
            f'"trade_time_utc":"{_at(each):%H:%M:%S}","timestamp":{each.at_ms},'
            f'"trade_price":{each.price_text},"trade_volume":{each.quantity_text},'
            f'"prev_closing_price":{each.price_text},"change_price":0.0,'
            f'"ask_bid":"{_SIDES[each.taker]}","sequential_id":{each.id}}}'
            for each in latest
        ]
        return f"[{','.join(rows)}]".encode()


def _code(symbol: Symbol) -> str:
    return f"{symbol.quote}-{symbol.base}"


def _at(trade: Trade) -> datetime:
    return datetime.fromtimestamp(trade.at_ms // 1000, UTC)


def _trade(event: Trade) -> Fields:
    return {
        "type": '"trade"',
        "code": f'"{_code(event.symbol)}"',
        "timestamp": str(event.at_ms),
        "trade_date": f'"{_at(event):%Y-%m-%d}"',
        "trade_time": f'"{_at(event):%H:%M:%S}"',
        "trade_timestamp": str(event.at_ms),
        "trade_price": event.price_text,
        "trade_volume": event.quantity_text,
        "ask_bid": f'"{_SIDES[event.taker]}"',
        "prev_closing_price": event.price_text,
        "change": '"EVEN"',
        "change_price": "0.0",
        "sequential_id": str(event.id),
    }


class _Book:
    """A book; its units are written in the format of the whole."""

    def __init__(self, event: BookSnapshot, units: int | None) -> None:
        self._event, self._units = event, units

    def fields(self, form: str) -> dict[str, str]:
        """The fields of the message."""
        bids, asks = split_levels(self._event.bids_raw), split_levels(self._event.asks_raw)
        rows = [*zip_longest(asks, bids, fillvalue=_NOTHING)][: self._units]
        units = (
            part(
                {"ask_price": ask[0], "bid_price": bid[0], "ask_size": ask[1], "bid_size": bid[1]},
                form,
            )
            for ask, bid in rows
        )
        return {
            "type": '"orderbook"',
            "code": f'"{_code(self._event.symbol)}"',
            "timestamp": str((self._event.at_ns or 0) // MS_NS),
            "total_ask_size": f"{sum(float(ask[1]) for ask, _ in rows)}",
            "total_bid_size": f"{sum(float(bid[1]) for _, bid in rows)}",
            "orderbook_units": f"[{','.join(units)}]",
            "level": "0",
        }


def _ticker(event: Ticker) -> Fields:
    last = event.last_text or "0.0"
    at_ms = (event.at_ns or 0) // MS_NS
    return {
        "type": '"ticker"',
        "code": f'"{_code(event.symbol)}"',
        "opening_price": last,
        "high_price": last,
        "low_price": last,
        "trade_price": last,
        "acc_trade_volume_24h": event.volume_text or "0.0",
        "acc_trade_price_24h": event.quote_volume_text or "0.0",
        "timestamp": str(at_ms),
    }
