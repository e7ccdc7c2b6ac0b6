"""Computes the frames of channels, as pure functions of time.

For a client that joins, ``matches`` begins with the last match, ``ticker`` with the current ticker,
and books with the whole book. A book's change has no sequence number, only a time: the end of its
slot. If the changes of a slot are sent one by one, the last one has that time and each earlier one
a microsecond less, so a book is complete at every time that is the end of a slot.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import msgspec

from penstock.simulator.coinbase import catalogue
from penstock.simulator.coinbase.product import WHOLE_BOOK, Product
from penstock.simulator.coinbase.spelling import time, whole_time
from penstock.simulator.coinbase.statistics import statistics
from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.engine.pacing import DueTrades, every, instants
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Trade
from penstock.simulator.market.pieces import Work

SECOND_MS = 1000
TICKER_BATCH_MS = STATUS_MS = 5 * SECOND_MS

Opening = Callable[[int], list[bytes] | Work[list[bytes]]]
"""The first payloads for a client that joins at a time."""


def matches(name: str, product: Product) -> StreamFeed:
    """``matches``: every trade."""
    due = DueTrades(product.market)

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        return [_match("match", product, trade) for trade in due(after_ms, upto_ms)]

    def opening(at_ms: int) -> list[bytes]:
        last = product.market.last_before(at_ms + 1)
        return [_match("last_match", product, last)] if last.id else []

    return StreamFeed(name, frames, opening)


def ticker(name: str, product: Product) -> StreamFeed:
    """``ticker``: one frame for all trades of the same time, with the last of them."""
    due = DueTrades(product.market)

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        instants = groupby(due(after_ms, upto_ms), key=lambda trade: trade.at_ms)
        return [_ticker(product, [*cascade][-1]) for _, cascade in instants]

    return StreamFeed(name, frames, _ticker_now(product))


def ticker_batch(name: str, product: Product) -> StreamFeed:
    """``ticker_batch``: every five seconds, if there was a trade."""
    market = product.market

    def at(due_ms: int) -> bytes | None:
        last = market.last_before(due_ms)
        return _ticker(product, last) if last.at_ms >= due_ms - TICKER_BATCH_MS else None

    return StreamFeed(name, every(TICKER_BATCH_MS, at, product.listed_at_ms), _ticker_now(product))


def heartbeat(name: str, product: Product) -> StreamFeed:
    """``heartbeat``: the last trade every second, so that clients detect a lost one."""

    def at(due_ms: int) -> bytes:
        last = product.market.last_before(due_ms + 1)
        return (
            f'{{"type":"heartbeat","sequence":{product.sequence_at(due_ms)},'
            f'"last_trade_id":{last.id},"product_id":"{product.id}","time":"{time(due_ms)}"}}'
        ).encode()

    return StreamFeed(name, every(SECOND_MS, at, product.listed_at_ms))


def level2(name: str, product: Product) -> StreamFeed:
    """``level2``: one frame per change of the book."""

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        sent: list[bytes] = []
        for due_ms in instants(Book.SLOT_MS, after_ms, upto_ms, product.listed_at_ms):
            changes = _changes(product, due_ms)
            left = range(len(changes) - 1, -1, -1)
            times = [whole_time(due_ms, microseconds) for microseconds in left]
            sent += map(partial(_l2update, product), changes, times)
        return sent

    return StreamFeed(name, frames, _snapshot(product))


def level2_batch(name: str, product: Product) -> StreamFeed:
    """``level2_batch``: one frame with the changes of a slot."""

    def at(due_ms: int) -> bytes | None:
        changes = _changes(product, due_ms)
        return _l2update(product, ",".join(changes), whole_time(due_ms)) if changes else None

    return StreamFeed(name, every(Book.SLOT_MS, at, product.listed_at_ms), _snapshot(product))


def status(name: str, listed: Sequence[Product]) -> StreamFeed:
    """``status``: all products and currencies, every five seconds."""
    payload = msgspec.json.encode(
        {
            "type": "status",
            "products": catalogue.products(listed),
            "currencies": catalogue.currencies(listed),
        }
    )
    return StreamFeed(name, every(STATUS_MS, lambda _: payload), lambda _: [payload])


def _match(kind: str, product: Product, trade: Trade) -> bytes:
    spelling, side = product.spelling, "sell" if trade.taker_buys else "buy"
    return (
        f'{{"type":"{kind}","trade_id":{trade.id},"maker_order_id":"{product.maker_order(trade)}",'
        f'"taker_order_id":"{product.taker_order(trade)}","side":"{side}",'
        f'"size":"{spelling.bare_size(trade.quantity)}",'
        f'"price":"{spelling.bare_price(trade.price)}","product_id":"{product.id}",'
        f'"sequence":{product.trade_sequence(trade)},"time":"{time(trade.at_ms)}"}}'
    ).encode()


def _changes(product: Product, due_ms: int) -> list[str]:
    """The changes of the slot that has just ended, removals first.

    So the sides never cross, even if each change is sent as a separate message.
    """
    slot, price, size = due_ms // Book.SLOT_MS - 1, product.spelling.price, product.spelling.size
    delta = product.book.delta(slot - 1, slot)
    if delta is None:
        return []
    changes = [("buy", *level) for level in delta.bids] + [("sell", *level) for level in delta.asks]
    changes.sort(key=lambda change: change[2] > 0)
    return [f'["{side}","{price(at)}","{size(quantity)}"]' for side, at, quantity in changes]


def _l2update(product: Product, changes: str, at: str) -> bytes:
    return (
        f'{{"type":"l2update","product_id":"{product.id}","changes":[{changes}],"time":"{at}"}}'
    ).encode()


def _snapshot(product: Product) -> Opening:
    levels = product.spelling.levels

    def opening(at_ms: int) -> Work[list[bytes]]:
        update_id = product.book.update_id(at_ms // Book.SLOT_MS - 1)
        sides = yield from product.book.at_in_turns(update_id, WHOLE_BOOK)
        bids, asks = (yield from levels(sides[0])), (yield from levels(sides[1]))
        text = f'{{"type":"snapshot","product_id":"{product.id}","asks":{asks},"bids":{bids}}}'
        return [text.encode()]

    return opening


def _ticker_now(product: Product) -> Opening:
    def opening(at_ms: int) -> list[bytes]:
        last = product.market.last_before(at_ms + 1)
        return [_ticker(product, last)] if last.id else []

    return opening


def _ticker(product: Product, trade: Trade) -> bytes:
    spelling, day = product.spelling, statistics(product, trade.at_ms)
    touch = product.book.touch(trade)
    # The taker's side, unlike that of a match.
    side = "buy" if trade.taker_buys else "sell"
    return (
        f'{{"type":"ticker","sequence":{product.trade_sequence(trade)},'
        f'"product_id":"{product.id}","price":"{spelling.bare_price(trade.price)}",'
        f'"open_24h":"{day.open}","volume_24h":"{day.volume}","low_24h":"{day.low}",'
        f'"high_24h":"{day.high}","volume_30d":"{day.month_volume}",'
        f'"best_bid":"{spelling.price(touch.bid)}",'
        f'"best_bid_size":"{spelling.size(touch.bid_quantity)}",'
        f'"best_ask":"{spelling.price(touch.ask)}",'
        f'"best_ask_size":"{spelling.size(touch.ask_quantity)}","side":"{side}",'
        f'"time":"{time(trade.at_ms)}","trade_id":{trade.id},'
        f'"last_size":"{spelling.bare_size(trade.quantity)}"}}'
    ).encode()
