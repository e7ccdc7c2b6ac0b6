"""Recorded events as Kraken sends them: version 2 of its streams, numbers without quotes."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw

from penstock.market.channels import BOOK_DELTAS, BOOK_SNAPSHOTS, CANDLES, TICKERS, TRADES
from penstock.market.events import BookDelta, BookSnapshot, Candle, Event, Ticker, Trade
from penstock.market.levels import split_levels
from penstock.market.symbol import Symbol
from penstock.playback.native import Answer, NativeExchange, Recorded, Wanted
from penstock.playback.native.formats import MS_NS, iso, number
from penstock.simulator.engine.exchange import Query, Reply
from penstock.simulator.kraken.names import pair
from penstock.simulator.kraken.streams import HEARTBEAT, read
from penstock.simulator.market.market import Listing

_MINUTES = {"1m": 1, "5m": 5, "15m": 15, "30m": 30, "1h": 60, "4h": 240, "1d": 1440}
_CHANNELS = {
    "trade": (TRADES.name,),
    "ticker": (TICKERS.name,),
    "book": (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name),
    **{f"ohlc-{minutes}": (CANDLES.named(text),) for text, minutes in _MINUTES.items()},
}
_PREFIX = "/0/public/"
_UNKNOWN_PAIR = Reply(b'{"error":["EQuery:Unknown asset pair"]}')
_UNAVAILABLE = Reply(b'{"error":["EService:Unavailable"]}')
_SECOND_NS = 1_000_000_000
_LEVELS = 100


def make(symbols: Iterable[Symbol]) -> NativeExchange:
    """The formats for these markets."""
    return Kraken(symbols)


class Kraken:
    """See ``NativeExchange``."""

    kept: Sequence[str] = tuple(
        _PREFIX + name for name in ("AssetPairs", "Assets", "SystemStatus", "Time")
    )
    heartbeats: Sequence[str] = (HEARTBEAT,)

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._symbols = {symbol.unified: symbol for symbol in symbols}
        self._pairs = {
            spelling: (named.id, symbol)
            for symbol in self._symbols.values()
            for named in (pair(Listing(symbol.base, symbol.quote, 4, 4, 1, 1, 0)),)
            for spelling in named.spellings
        }
        self.answers: Mapping[str, Answer] = {
            _PREFIX + "Depth": self._depth,
            _PREFIX + "Trades": self._trades,
        }

    def wanted(self, stream: str) -> Wanted | None:
        """See ``NativeExchange``."""
        channel, name, option, _ = read(stream)
        symbol = self._symbols.get(name)
        channels = _CHANNELS.get(f"ohlc-{option}" if channel == "ohlc" else channel)
        return None if symbol is None or channels is None else Wanted(symbol, channels)

    def opening(self, book: BookSnapshot, stream: str) -> list[bytes]:
        """The whole book."""
        return self.frames(book, stream) if read(stream).snapshot else []

    def frames(self, event: Event, stream: str) -> list[bytes]:  # noqa: ARG002 - as the port
        """See ``NativeExchange``."""
        name = event.symbol.unified
        match event:
            case Trade():
                return _frame(
                    "trade",
                    f'"symbol":"{name}","side":"{event.taker}","price":{event.price_text},'
                    f'"qty":{event.quantity_text},"ord_type":"market","trade_id":{event.id},'
                    f'"timestamp":"{iso(event.at_ns)}"',
                )
            case BookDelta():
                return _frame("book", _book(event, name))
            case BookSnapshot():
                return _frame("book", _book(event, name), "snapshot")
            case Ticker():
                return _frame("ticker", _ticker(event, name))
            case Candle():
                return _frame("ohlc", _candle(event, name))
        return []

    def _depth(self, query: Query, recorded: Recorded) -> bytes | Reply:
        found = self._pairs.get(query.get("pair", ""))
        if found is None:
            return _UNKNOWN_PAIR
        book = recorded.book(found[1])
        if book is None:
            return _UNAVAILABLE
        at_s = (book.at_ns or 0) // _SECOND_NS
        most = number(query, "count") or _LEVELS
        asks, bids = (_rows(side, at_s, most) for side in (book.asks_raw, book.bids_raw))
        result = f'{{"{found[0]}":{{"asks":[{asks}],"bids":[{bids}]}}}}'
        return f'{{"error":[],"result":{result}}}'.encode()

    def _trades(self, query: Query, recorded: Recorded) -> bytes | Reply:
        found = self._pairs.get(query.get("pair", ""))
        if found is None:
            return _UNKNOWN_PAIR
        trades = recorded.trades(found[1])
        rows = ",".join(
            f'["{each.price_text}","{each.quantity_text}",{_seconds(each.at_ns)},'
            f'"{each.taker[0]}","m","",{each.id}]'
            for each in trades
        )
        last = trades[-1].at_ns if trades else 0
        result = f'{{"{found[0]}":[{rows}],"last":"{last}"}}'
        return f'{{"error":[],"result":{result}}}'.encode()


def _frame(channel: str, entry: str, kind: str = "update") -> list[bytes]:
    return [f'{{"channel":"{channel}","type":"{kind}","data":[{{{entry}}}]}}'.encode()]


def _book(event: BookDelta | BookSnapshot, name: str) -> str:
    checksum = 0 if event.checksum is None else event.checksum
    at = "" if event.at_ns is None else f',"timestamp":"{iso(event.at_ns)}"'
    return (
        f'"symbol":"{name}","bids":{_levels(event.bids_raw)},"asks":{_levels(event.asks_raw)},'
        f'"checksum":{checksum}{at}'
    )


def _levels(raw: Raw) -> str:
    rows = (f'{{"price":{price},"qty":{quantity}}}' for price, quantity in split_levels(raw))
    return f"[{','.join(rows)}]"


def _rows(raw: Raw, at_s: int, most: int) -> str:
    levels = split_levels(raw)[:most]
    return ",".join(f'["{price}","{quantity}",{at_s}]' for price, quantity in levels)


def _ticker(event: Ticker, name: str) -> str:
    at = "" if event.at_ns is None else f',"timestamp":"{iso(event.at_ns)}"'
    return (
        f'"symbol":"{name}","bid":{event.bid_text},"bid_qty":{event.bid_quantity_text},'
        f'"ask":{event.ask_text},"ask_qty":{event.ask_quantity_text},"last":{event.last_text},'
        f'"volume":{event.volume_text},"vwap":0.0,"low":{event.low_text},"high":{event.high_text},'
        f'"change":0.0,"change_pct":0.0{at}'
    )


def _candle(event: Candle, name: str) -> str:
    return (
        f'"symbol":"{name}","open":{event.open_text},"high":{event.high_text},'
        f'"low":{event.low_text},"close":{event.close_text},"trades":{event.trades or 0},'
        f'"volume":{event.volume_text},"vwap":{event.vwap_text or "0.0"},'
        f'"interval_begin":"{iso(event.open_ms * MS_NS)}","interval":{_MINUTES[event.interval]},'
        f'"timestamp":"{iso((event.close_ms + 1) * MS_NS)}"'
    )


def _seconds(at_ns: int) -> str:
    return f"{at_ns // _SECOND_NS}.{at_ns % _SECOND_NS:09}"
