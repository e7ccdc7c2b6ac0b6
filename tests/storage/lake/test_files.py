"""The files of a table: sorted, and small."""

import random
from pathlib import Path

import pyarrow.parquet as pq
from tests.events import trade
from tests.storage.lake.test_contract import SLOT, TRADES, rows_of

from penstock.market.symbol import Symbol
from penstock.storage.lake import NumberRange, open_lake
from penstock.storage.log.keys import stream_of

SYMBOLS = [Symbol(base, "USDT") for base in ("SOL", "BTC", "ETH")]
BYTES_PER_TRADE = 22


def test_files_are_sorted_by_symbol_and_time_and_small(tmp_path: Path) -> None:
    chance, at_ns, price = random.Random(1), 1_700_006_400_000_000_000, 6_000_000
    events = []
    for n in range(30_000):
        at_ns += round(chance.expovariate(1 / 40)) * 1_000_000
        price += chance.choice((-1, 0, 0, 1))
        events.append(
            trade(
                3_000_000_000 + n, SYMBOLS[n % 3], "binance",
                price_text=f"{price / 100:.2f}000000",
                quantity_text=f"{chance.expovariate(50):.5f}000",
                at_ns=at_ns, received_at_ns=at_ns + chance.randint(30_000_000, 60_000_000),
                taker=chance.choice(("buy", "sell")),
            )
        )  # fmt: skip
    lake = open_lake(str(tmp_path))
    rows = rows_of(TRADES, events)

    lake.seal(TRADES, SLOT, rows, {stream_of(e): NumberRange(1, 30_000) for e in events[:3]})

    (file,) = tmp_path.rglob("*.parquet")
    order = pq.ParquetFile(file).read(["symbol", "at"]).to_pylist()
    assert order == sorted(order, key=lambda row: (row["symbol"], row["at"]))
    assert file.stat().st_size / len(events) < BYTES_PER_TRADE
    (stats,) = lake.stats()
    assert stats.size_bytes == file.stat().st_size
