"""Recorded events as Coinbase sends them: one flat object per frame, sides of the maker."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw

from penstock.market.channels import BOOK_DELTAS, BOOK_SNAPSHOTS, TICKERS, TRADES
from penstock.market.events import BookDelta, BookSnapshot, Event, Ticker, Trade
from penstock.market.levels import split_levels
from penstock.market.symbol import Symbol
from penstock.playback.native import Answer, NativeExchange, Recorded, Wanted
from penstock.playback.native.formats import iso, text
from penstock.simulator.engine.exchange import Query, Reply

_CHANNELS = {
    "matches": (TRADES.name,),
    "ticker": (TICKERS.name,),
    "level2": (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name),
    "level2_batch": (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name),
}
_MAKER = {"buy": "sell", "sell": "buy"}
_NO_ORDER = "00000000-0000-4000-8000-000000000000"
_NOT_FOUND = Reply(b'{"message":"NotFound"}', 404)
_UNAVAILABLE = Reply(b'{"message":"The recording has no book of this product yet"}', 503)


def make(symbols: Iterable[Symbol]) -> NativeExchange:
    """The formats for these markets."""
    return Coinbase(symbols)


class Coinbase:
    """See ``NativeExchange``."""

    kept: Sequence[str] = ("/currencies", "/products", "/products/{product}", "/time")
    heartbeats: Sequence[str] = ("heartbeat:", "status")

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._symbols = {_name(symbol): symbol for symbol in symbols}
        self.answers: Mapping[str, Answer] = {
            "/products/{product}/book": self._book,
            "/products/{product}/trades": self._trades,
        }

    def wanted(self, stream: str) -> Wanted | None:
        """See ``NativeExchange``."""
        channel, _, product = stream.partition(":")
        symbol = self._symbols.get(product)
        if symbol is None or channel not in _CHANNELS:
            return None
        return Wanted(symbol, _CHANNELS[channel])

    def opening(self, book: BookSnapshot, stream: str) -> list[bytes]:
        """The whole book."""
        return self.frames(book, stream)

    def frames(self, event: Event, stream: str) -> list[bytes]:  # noqa: ARG002 - as the port
        """See ``NativeExchange``."""
        product = _name(event.symbol)
        match event:
            case Trade():
                body = (
                    f'"type":"match","trade_id":{event.id},"maker_order_id":"{_NO_ORDER}",'
                    f'"taker_order_id":"{_NO_ORDER}","side":"{_MAKER[event.taker]}",'
                    f'"size":"{event.quantity_text}","price":"{event.price_text}",'
                    f'"product_id":"{product}","sequence":0,"time":"{iso(event.at_ns)}"'
                )
            case BookDelta():
                changes = [*_changes("buy", event.bids_raw), *_changes("sell", event.asks_raw)]
                body = (
                    f'"type":"l2update","product_id":"{product}",'
                    f'"changes":[{",".join(changes)}],"time":"{iso(event.at_ns)}"'
                )
            case BookSnapshot():
                at = "" if event.at_ns is None else f',"time":"{iso(event.at_ns)}"'
                body = (
                    f'"type":"snapshot","product_id":"{product}",'
                    f'"asks":{text(event.asks_raw)},"bids":{text(event.bids_raw)}{at}'
                )
            case Ticker():
                body = _ticker(event, product)
            case _:
                return []
        return [f"{{{body}}}".encode()]

    def _book(self, query: Query, recorded: Recorded) -> bytes | Reply:
        symbol = self._symbols.get(query.get("product", ""))
        if symbol is None:
            return _NOT_FOUND
        book = recorded.book(symbol)
        if book is None:
            return _UNAVAILABLE
        depth = 1 if query.get("level", "1") == "1" else None
        bids, asks = (_rows(side, depth) for side in (book.bids_raw, book.asks_raw))
        at = "" if book.at_ns is None else f',"time":"{iso(book.at_ns)}"'
        return (
            f'{{"sequence":0,"bids":[{bids}],"asks":[{asks}],"auction_mode":false,'
            f'"auction":null{at}}}'
        ).encode()

    def _trades(self, query: Query, recorded: Recorded) -> bytes | Reply:
        symbol = self._symbols.get(query.get("product", ""))
        if symbol is None:
            return _NOT_FOUND
        rows = [
            f'{{"trade_id":{each.id},"side":"{_MAKER[each.taker]}","size":"{each.quantity_text}",'
            f'"price":"{each.price_text}","time":"{iso(each.at_ns)}"}}'
            for each in reversed(recorded.trades(symbol))
        ]
        return f"[{','.join(rows)}]".encode()


def _name(symbol: Symbol) -> str:
    return f"{symbol.base}-{symbol.quote}"


def _changes(side: str, raw: Raw) -> list[str]:
    return [f'["{side}","{price}","{quantity}"]' for price, quantity in split_levels(raw)]


def _rows(raw: Raw, depth: int | None) -> str:
    return ",".join(f'["{price}","{size}",1]' for price, size in split_levels(raw)[:depth])


def _ticker(event: Ticker, product: str) -> str:
    sizes = "".join(
        f',"best_{name}_size":"{size}"'
        for name, size in (("bid", event.bid_quantity_text), ("ask", event.ask_quantity_text))
        if size is not None
    )
    return (
        f'"type":"ticker","sequence":{event.update_id or 0},"product_id":"{product}",'
        f'"price":"{event.last_text}","open_24h":"{event.open_text}",'
        f'"volume_24h":"{event.volume_text}","low_24h":"{event.low_text}",'
        f'"high_24h":"{event.high_text}","volume_30d":"0","best_bid":"{event.bid_text}",'
        f'"best_ask":"{event.ask_text}"{sizes},"side":"buy","time":"{iso(event.at_ns or 0)}",'
        '"trade_id":0,"last_size":"0"'
    )
