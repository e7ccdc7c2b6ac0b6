"""nautilus_trader's side of the lake benchmark: its Parquet catalog, in its own environment.

Each line it reads names what to do: ``{"trades": …, "changes": …}``. Its own objects are made first
and not counted. Then they are written to a fresh catalog with ``write_data`` and read back with
``query``, as its documentation does; a book change is as many of its deltas as it has levels. CPU
time is that of the process, all threads included. Reads are answered with its own objects.
"""

import gc
import json
import sys
import tempfile
import time
from pathlib import Path

from bench.inputs.market_days import changes, trades
from nautilus_trader.model.data import BookOrder, OrderBookDelta, TradeTick
from nautilus_trader.model.enums import AggressorSide, BookAction, OrderSide, RecordFlag
from nautilus_trader.model.identifiers import InstrumentId, TradeId
from nautilus_trader.model.objects import Price, Quantity
from nautilus_trader.persistence.catalog import ParquetDataCatalog

MARKET = InstrumentId.from_str("BTCUSDT.BINANCE")
DAY_NS = 86_400_000_000_000


def as_ticks(count):
    sides = {True: AggressorSide.BUYER, False: AggressorSide.SELLER}
    return [
        TradeTick(
            MARKET,
            Price(each.cents / 100, 2),
            Quantity(each.units / 100_000, 5),
            sides[each.is_buy],
            TradeId(str(each.id)),
            each.at_ns,
            each.received_ns,
        )
        for each in trades(count)
    ]


def as_deltas(count):
    found = []
    for change in changes(count):
        for side, levels in ((OrderSide.BUY, change.bids), (OrderSide.SELL, change.asks)):
            for cents, units in levels:
                action = BookAction.UPDATE if units else BookAction.DELETE
                order = BookOrder(side, Price(cents / 100, 2), Quantity(units / 100_000, 5), 0)
                found.append(
                    OrderBookDelta(
                        MARKET,
                        action,
                        order,
                        0,
                        change.final_id,
                        change.at_ns,
                        change.received_ns,
                    )
                )
        last = found[-1]
        found[-1] = OrderBookDelta(
            MARKET,
            last.action,
            last.order,
            RecordFlag.F_LAST,
            change.final_id,
            change.at_ns,
            change.received_ns,
        )
    return found


def timed(work):
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }


def measure(kind, objects):
    with tempfile.TemporaryDirectory(prefix="penstock-bench-nautilus-") as folder:
        catalog = ParquetDataCatalog(folder)
        _, write = timed(lambda: catalog.write_data(objects))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        found, query = timed(lambda: catalog.query(kind, identifiers=[str(MARKET)]))
        assert len(found) == len(objects)
        middle = objects[len(objects) // 2].ts_init
        part, one_part = timed(
            lambda: catalog.query(
                kind, identifiers=[str(MARKET)], start=middle, end=middle + DAY_NS // 100
            )
        )
    return {
        "rows": len(objects), "bytes": size, "write": write, "query": query,
        "part": {"rows": len(part), **one_part},
    }  # fmt: skip


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {
            "trades": measure(TradeTick, as_ticks(asked["trades"])),
            "changes": measure(OrderBookDelta, as_deltas(asked["changes"])),
        }
        print(json.dumps(answer), flush=True)


main()
