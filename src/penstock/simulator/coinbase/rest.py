"""Implements the REST endpoints. No data is from before the listing or after the request."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from penstock.simulator.coinbase import catalogue, refusals
from penstock.simulator.coinbase.candles import candles
from penstock.simulator.coinbase.product import WHOLE_BOOK, Product, book_sequence
from penstock.simulator.coinbase.rules import SIGNED
from penstock.simulator.coinbase.signatures import Signatures
from penstock.simulator.coinbase.spelling import server_time, time
from penstock.simulator.coinbase.statistics import statistics
from penstock.simulator.engine.exchange import Asked, Query, Refused, Reply, Route
from penstock.simulator.engine.rules import ANY_TARGET, LimitTarget
from penstock.simulator.market.book import Level
from penstock.simulator.market.pieces import Work, finished, joined

MOST_TRADES = 1000
HOUR_MS = 3_600_000

_NUMBER = re.compile(r"[0-9]{1,18}")

Answered = bytes | Reply | Work[bytes]
Answer = Callable[[Query, int], Answered]
OfProduct = Callable[[Product, Query, int], Answered]
Rows = Callable[[Product, Sequence[Level]], Iterator[str]]


def routes(listed: Sequence[Product], signatures: Signatures) -> dict[str, Route]:
    """All endpoints by path."""
    by_id = {each.id: each for each in listed}
    entries = {entry["id"]: msgspec.json.encode(entry) for entry in catalogue.products(listed)}
    currencies = msgspec.json.encode(catalogue.currencies(listed))
    products = b"[%b]" % b",".join(entries.values())
    answers: dict[str, Answer] = {
        "/time": _time,
        "/currencies": lambda _, __: currencies,
        "/products": lambda _, __: products,
        "/products/spark-lines": partial(_spark_lines, listed),
        "/products/{product}": partial(_product, entries),
    }
    for name, answer in _OF_PRODUCT.items():
        answers[f"/products/{{product}}/{name}"] = partial(_of_product, by_id, answer)

    def target(asked: Asked) -> LimitTarget:
        key = signatures.key_of(asked)
        return LimitTarget(SIGNED, key) if key else ANY_TARGET

    return {
        path: Route(path, _cost, _polite(answer, signatures), target)
        for path, answer in answers.items()
    }


def _cost(_query: Query) -> int:
    return 1


def _polite(answer: Answer, signatures: Signatures) -> Callable[[Asked, int], Answered]:
    def answered(asked: Asked, as_of_ms: int) -> Answered:
        if not asked.headers.get("User-Agent"):
            raise refusals.no_user_agent()
        signatures.check(asked, as_of_ms)
        return answer(asked.query, as_of_ms)

    return answered


def _time(_query: Query, as_of_ms: int) -> bytes:
    second, ms = divmod(as_of_ms, 1000)
    return f'{{"iso":"{server_time(as_of_ms)}","epoch":{second}.{ms:03}}}'.encode()


def _product(entries: Mapping[str, bytes], query: Query, _as_of_ms: int) -> bytes:
    entry = entries.get(query["product"])
    if entry is None:
        raise Refused(refusals.said(404, refusals.NOT_FOUND))
    return entry


def _of_product(
    by_id: Mapping[str, Product], answer: OfProduct, query: Query, as_of_ms: int
) -> Answered:
    product = by_id.get(query["product"])
    if product is None or product.listed_at_ms > as_of_ms:
        raise Refused(refusals.said(404, refusals.NOT_FOUND))
    return answer(product, query, as_of_ms)


def _spark_lines(listed: Sequence[Product], _query: Query, as_of_ms: int) -> bytes:
    """A day of hourly candles of every product, latest first, without volumes."""
    latest_ms = as_of_ms - as_of_ms % HOUR_MS
    borders = [latest_ms + HOUR_MS * (number - 23) for number in range(24)]
    lines = []
    for each in listed:
        sums = [*each.market.candles(borders), each.market.sums(latest_ms, as_of_ms + 1)]
        rows = map(each.spelling.spark, borders, sums)
        lines.append(f'"{each.id}":[{",".join([*rows][::-1])}]')
    return f"{{{','.join(lines)}}}".encode()


def _ticker(product: Product, _query: Query, as_of_ms: int) -> bytes:
    spelling, last = product.spelling, product.market.last_before(as_of_ms + 1)
    _, bids, asks = product.book.snapshot(as_of_ms, 1)
    return (
        f'{{"trade_id":{last.id},"price":"{spelling.bare_price(last.price)}",'
        f'"size":"{spelling.bare_size(last.quantity)}","time":"{time(last.at_ms)}",'
        f'"bid":"{spelling.bare_price(bids[0][0])}","ask":"{spelling.bare_price(asks[0][0])}",'
        f'"volume":"{statistics(product, as_of_ms).volume}"}}'
    ).encode()


def _stats(product: Product, _query: Query, as_of_ms: int) -> bytes:
    day = statistics(product, as_of_ms)
    return (
        f'{{"open":"{day.open}","high":"{day.high}","low":"{day.low}","last":"{day.last}",'
        f'"volume":"{day.volume}","volume_30day":"{day.month_volume}"}}'
    ).encode()


def _book(product: Product, query: Query, as_of_ms: int) -> bytes | Work[bytes]:
    level = query.get("level", "1")
    if level not in ("1", "2", "3"):
        raise refusals.invalid("level")
    if level == "1":
        return finished(_book_in_turns(product, 1, _by_price, as_of_ms))
    rows = _by_order if level == "3" else _by_price
    return _book_in_turns(product, WHOLE_BOOK, rows, as_of_ms)


def _book_in_turns(product: Product, depth: int, rows: Rows, as_of_ms: int) -> Work[bytes]:
    update_id = product.book.snapshot_id(as_of_ms)
    sides = yield from product.book.at_in_turns(update_id, depth)
    bids = yield from joined(rows(product, sides[0]))
    asks = yield from joined(rows(product, sides[1]))
    return (
        f'{{"sequence":{book_sequence(update_id)},"bids":[{bids}],"asks":[{asks}],'
        f'"auction_mode":false,"auction":null,"time":"{time(as_of_ms)}"}}'
    ).encode()


def _by_price(product: Product, side: Sequence[Level]) -> Iterator[str]:
    price, size = product.spelling.price, product.spelling.size
    for at, quantity in side:
        yield f'["{price(at)}","{size(quantity)}",{product.count_orders(at, quantity)}]'


def _by_order(product: Product, side: Sequence[Level]) -> Iterator[str]:
    price, size = product.spelling.price, product.spelling.size
    for at, quantity in side:
        for part, order in product.orders(at, quantity):
            yield f'["{price(at)}","{size(part)}","{order}"]'


def _trades(product: Product, query: Query, as_of_ms: int) -> Reply:
    """Trades by id, latest first.

    ``after`` returns trades older than its id; ``before`` the latest of the newer ones, which need
    not be adjacent to it.
    """
    limit = _number(query, "limit")
    if limit == 0:
        raise refusals.invalid("limit")
    limit = min(limit or MOST_TRADES, MOST_TRADES)
    after, before = _number(query, "after"), _number(query, "before")
    end = product.market.id_at(as_of_ms + 1)
    if after is not None:
        end = min(end, after)
    first = max(1, (before or 0) + 1, end - limit)
    rows = product.market.trades(first, end - first)[::-1]
    body = f"[{','.join(map(product.spelling.trade, rows))}]".encode()
    if not rows:
        return Reply(body)
    return Reply(body, headers={"CB-BEFORE": str(rows[0].id), "CB-AFTER": str(rows[-1].id)})


def _number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise refusals.invalid(name)
    return int(text)


_OF_PRODUCT: Mapping[str, OfProduct] = {
    "ticker": _ticker,
    "stats": _stats,
    "book": _book,
    "trades": _trades,
    "candles": candles,
}
