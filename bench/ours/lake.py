"""Our side of the lake benchmark.

Each line it reads names what to do, and is answered with one line of JSON:

    {"trades": …, "changes": …}   write and read both, the same answer as the peer gives
    {"replay": …}                 replay the events of a log as fast as possible
    {"generate": …, "folder": …}  a lake of so many generated trades
    {"scan": …}                   the query over all of it, and one day of one market

CPU time is that of the process, all threads included.
"""

import gc
import gzip
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from bench.inputs.market_days import changes, price_text, quantity_text, trades

import penstock
from penstock.config import Keep
from penstock.market.channels import BOOK_DELTAS, TRADES, Channel
from penstock.market.codec import encode
from penstock.market.events import BookDelta, Event, Trade
from penstock.market.symbol import Symbol
from penstock.storage.lake import NumberRange, open_lake
from penstock.storage.lake.columns import records_of, schema_of, slot_text, table_of
from penstock.storage.lake.coverage import COVERAGE_SCHEMA, unified
from penstock.storage.log import Stored, open_log
from penstock.storage.log.keys import Stream, place_of

T = TypeVar("T")
BTC = Symbol("BTC", "USDT")
SLOT, LOG_ID = "collect-binance", 1
AT_ONCE = Keep().seal_rows
DAY_NS = 86_400_000_000_000
PART = timedelta(days=0.01)
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
MARKETS = [Symbol(name, "USDT") for name in ("ADA", "BNB", "BTC", "DOT", "ETH", "SOL", "XRP")]
ROWS_PER_SEAL = 1_000_000


def made_trades(count: int) -> Iterator[Trade]:
    for each in trades(count):
        yield Trade(
            exchange="binance",
            symbol=BTC,
            received_at_ns=each.received_ns,
            id=each.id,
            at_ns=each.at_ns,
            price_text=price_text(each.cents),
            quantity_text=quantity_text(each.units),
            taker="buy" if each.is_buy else "sell",
        )


def levels(pairs: Sequence[tuple[int, int]]) -> msgspec.Raw:
    texts = [(price_text(cents), quantity_text(units)) for cents, units in pairs]
    return msgspec.Raw(msgspec.json.encode(texts))


def made_changes(count: int) -> Iterator[BookDelta]:
    for each in changes(count):
        yield BookDelta(
            exchange="binance",
            symbol=BTC,
            received_at_ns=each.received_ns,
            first_update_id=each.first_id,
            final_update_id=each.final_id,
            at_ns=each.at_ns,
            bids_raw=levels(each.bids),
            asks_raw=levels(each.asks),
        )


@lru_cache
def records(row: Channel, count: int) -> list[Stored]:
    """The records as a keeper reads them from the log: bytes."""
    events: Iterator[Event] = made_trades(count) if row is TRADES else made_changes(count)
    return [
        Stored(*place_of(event)[:1], SLOT, number, b"", encode(event), "")
        for number, event in enumerate(events, 1)
    ]


def timed(work: Callable[[], T]) -> tuple[T, dict[str, float]]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def write(row: Channel, stored: Sequence[Stored], folder: str) -> list[pa.Table]:
    """From the bytes of the log to committed tables, as a keeper does."""
    lake, tables = open_lake(folder), []
    for begin in range(0, len(stored), AT_ONCE):
        part = stored[begin : begin + AT_ONCE]
        tables.append(table_of(row, part, LOG_ID))
        numbers = NumberRange(part[0].number, part[-1].number)
        lake.seal(row, slot_text(LOG_ID, SLOT), tables[-1], {part[0].stream: numbers})
    return tables


def cover(folder: str, streams: Sequence[Stream]) -> None:
    """Store the coverage as a keeper does; readers find in it which streams there are."""
    rows = [
        {
            "exchange": each.exchange, "channel": each.channel, "symbol": unified(each),
            "by": "id", "first": 1, "last": 1, "since": FIRST_DAY, "until": FIRST_DAY,
            "state": "complete",
        }
        for each in streams
    ]  # fmt: skip
    open_lake(folder).merge_coverage(pa.Table.from_pylist(rows, COVERAGE_SCHEMA), streams)


def read_back(row: Channel, stored: Sequence[Stored], folder: str, tables: list[pa.Table]) -> bool:
    """What a keeper does after each seal, before the log may forget anything."""
    lake = open_lake(folder)
    again = [record for table in tables for record in records_of(row, table)]
    return again == [each.record for each in stored] and all(lake.equal(row, t) for t in tables)


def query(row: Channel, folder: str, **arguments: Any) -> Any:
    data = penstock.open(folder)
    ask = data.trades if row is TRADES else data.books
    return ask("BTC/USDT", on_gap="ignore", **arguments)


def size_of(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def as_csv(row: Channel, stored: Sequence[Stored]) -> bytes:
    fields = [column.key for column in row.columns]
    lines = [",".join(("exchange", "symbol", "received_at_ns", *fields))]
    for each in stored:
        event = msgspec.json.decode(each.record[1:])
        levels_quoted = (
            json.dumps(v) if isinstance(v, list) else v for v in map(event.get, fields)
        )
        shown = (event["exchange"], event["symbol"], event["received_at_ns"], *levels_quoted)
        lines.append(",".join(map(str, shown)))
    return "\n".join(lines).encode()


def measure(row: Channel, count: int) -> dict[str, object]:
    """Everything about one channel; the same names as the peer's."""
    stored = records(row, count)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-lake-") as folder:
        tables, written = timed(lambda: write(row, stored, folder))
        size = size_of(folder)
        cover(folder, [stored[0].stream])
        same, verified = timed(lambda: read_back(row, stored, folder, tables))
        if not same:
            raise SystemExit(f"{row.name}: what was read back differs")
        frame, queried = timed(lambda: query(row, folder).polars())
        assert frame.height == count
        del frame
        events, iterated = timed(lambda: sum(1 for _ in query(row, folder)))
        assert events == count
        middle = stored[count // 2].event.received_at_ns
        times = {"since": middle, "until": middle + DAY_NS // 100}
        part, one_part = timed(lambda: query(row, folder, **times).polars())
    return {
        "rows": count, "bytes": size, "write": written, "read_back": verified, "query": queried,
        "events": iterated, "part": {"rows": part.height, **one_part},
    }  # fmt: skip


def sizes(row: Channel, count: int) -> dict[str, int]:
    """The same records in other formats."""
    stored = records(row, count)
    return {
        "json": sum(len(each.record) for each in stored),
        "csv_gz": len(gzip.compress(as_csv(row, stored), 6)),
    }


def replay(count: int) -> dict[str, object]:
    """All records of a log, in order, as fast as they are taken."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-replay-") as folder:
        writer = open_log(f"rocksdb:{folder}").writer(SLOT)
        events = list(made_trades(count))
        for begin in range(0, count, 10_000):
            writer.append(events[begin : begin + 10_000])
        writer.close()
        del events
        seen, spent = timed(
            lambda: sum(len(batch) for batch in penstock.replay(data_dir=folder).batches())
        )
    assert seen == count
    return {"rows": seen, **spent}


def generated(market: Symbol, day: int, rows: int, first_number: int) -> pa.Table:
    """One day of trades of one market, as columns."""
    draw = np.random.default_rng([day, MARKETS.index(market)])
    start_ns = int(FIRST_DAY.timestamp()) * 1_000_000_000 + day * DAY_NS
    at_ns = start_ns + np.sort(draw.integers(0, DAY_NS // 1_000_000, rows)) * 1_000_000
    price = pa.array(6_000_000 + np.cumsum(draw.integers(-5, 6, rows))).cast(pa.decimal128(20, 0))
    quantity = pa.array(draw.integers(1, 200_000, rows)).cast(pa.decimal128(20, 0))
    names = {
        "exchange": "binance", "symbol": market.unified, "source": "live",
        "slot": slot_text(LOG_ID, SLOT),
    }  # fmt: skip
    columns: dict[str, Any] = {
        **{name: pa.repeat(value, rows) for name, value in names.items()},
        "date": pa.repeat(pa.scalar((FIRST_DAY + timedelta(days=day)).date()), rows),
        "id": pa.array(np.arange(first_number, first_number + rows)),
        "at": pa.array(at_ns // 1000).cast(pa.timestamp("us", tz="UTC")),
        "at_ns": pa.array(at_ns),
        "received_ns": pa.array(at_ns + draw.integers(3_000_000, 4_000_000, rows)),
        "price": scaled(price, 2),
        "price_digits": pa.repeat(pa.scalar(8, pa.int8()), rows),
        "quantity": scaled(quantity, 5),
        "quantity_digits": pa.repeat(pa.scalar(8, pa.int8()), rows),
        "taker": pa.array(["buy", "sell"]).take(pa.array(draw.integers(0, 2, rows))),
        "number": pa.array(np.arange(first_number, first_number + rows)),
    }
    schema = schema_of(TRADES)
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def scaled(units: pa.Array, digits: int) -> pa.Array:
    """Whole numbers, divided by a power of ten."""
    return pa.Array.from_buffers(
        pa.decimal128(20, digits), len(units), units.buffers()
    ).cast(pa.decimal128(38, 18))  # fmt: skip


def generate(rows: int, folder: str) -> dict[str, object]:
    """Seal so many trades of several markets, a market's day at a time."""
    lake, left, day = open_lake(folder), rows, 0
    spent = time.process_time()
    while left > 0:
        for market in MARKETS:
            count = min(left, ROWS_PER_SEAL)
            if not count:
                break
            numbers = NumberRange(day * ROWS_PER_SEAL + 1, day * ROWS_PER_SEAL + count)
            stream = Stream("binance", TRADES.name, market.slug)
            table = generated(market, day, count, numbers.first)
            lake.seal(TRADES, slot_text(LOG_ID, SLOT), table, {stream: numbers})
            left -= count
        day += 1
    cpu_s = time.process_time() - spent
    cover(folder, [Stream("binance", TRADES.name, market.slug) for market in MARKETS])
    return {"rows": rows, "cpu_s": cpu_s, "bytes": size_of(folder)}


def scan(folder: str) -> dict[str, object]:
    """Count, sum and group by hour; then one day of one market, and a hundredth of it."""
    text = """
        SELECT date_trunc('hour', time) AS hour, count(*) AS n, sum(quantity) AS volume
        FROM trades GROUP BY hour ORDER BY hour
    """
    found, all_rows = timed(lambda: penstock.open(folder).sql(text).polars())
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    until = FIRST_DAY + timedelta(days=1)
    day, one_day = timed(lambda: query(TRADES, folder, since=FIRST_DAY, until=until).polars())
    noon = FIRST_DAY + timedelta(hours=12)
    part, one_part = timed(lambda: query(TRADES, folder, since=noon, until=noon + PART).polars())
    return {
        "rows": int(found["n"].sum()), "hours": found.height, "rss_mb": most_mb, "query": all_rows,
        "day": {"rows": day.height, **one_day}, "part": {"rows": part.height, **one_part},
    }  # fmt: skip


def answer(asked: dict[str, Any]) -> dict[str, object]:
    match asked:
        case {"trades": int(some), "changes": int(others)}:
            return {"trades": measure(TRADES, some), "changes": measure(BOOK_DELTAS, others)}
        case {"sizes": int(some), "changes": int(others)}:
            return {"trades": sizes(TRADES, some), "changes": sizes(BOOK_DELTAS, others)}
        case {"replay": int(count)}:
            return replay(count)
        case {"generate": int(count), "folder": str(folder)}:
            return generate(count, folder)
        case {"scan": str(folder)}:
            return scan(folder)
    raise SystemExit(f"unknown question: {asked}")


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
