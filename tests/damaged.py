"""A slot as a killed process leaves it, to be damaged: three tables and a write-ahead log."""

import shutil
from collections.abc import Callable
from contextlib import closing
from operator import attrgetter
from pathlib import Path

from tests import events

from penstock.market.events import Event, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import Span, keys, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.log.rocksdb import open_alone

SYMBOLS = (Symbol("BTC", "USDT"), Symbol("ETH", "USDT"))
PER_TABLE = 150
LAST = 4 * PER_TABLE
IN_RECORDS = 9_000
"""The place of a byte in the records of such a table."""
BEGAN_NS = 1_700_000_000_000_000_000
Content = dict[Stream, list[tuple[bytes, int, bytes]]]
Change = Callable[[Path], object]


def trade(symbol: Symbol, number: int) -> Trade:
    at_ns = BEGAN_NS + number * 10_000_000
    price = str(100 + number % 97)
    return events.trade(
        number, symbol, "binance", received_at_ns=at_ns, at_ns=at_ns, price_text=price
    )


def ticker(symbol: Symbol, number: int) -> Ticker:
    """Without an id: it is kept by when it was received."""
    at_ns = BEGAN_NS + number * 10_000_000
    return events.ticker(at_ns, symbol, "binance", at_ns=at_ns, last_text="7")


def everything(numbers: range) -> list[Event]:
    return [make(symbol, n) for symbol in SYMBOLS for n in numbers for make in (trade, ticker)]


def make_slot(folder: Path) -> Path:
    """A data folder with such a slot."""
    running = folder / "running"
    for table in range(4):
        writer = open_log(f"rocksdb:{running}").writer("a")
        for first in range(table * PER_TABLE + 1, (table + 1) * PER_TABLE + 1, 50):
            writer.append(everything(range(first, first + 50)))
        if table < 3:
            writer.close()  # which makes a table
    killed = folder / "killed"
    shutil.copytree(running, killed, ignore=shutil.ignore_patterns("*.owner"))
    writer.close()
    return killed


def files_of(folder: Path) -> list[Path]:
    """What may be damaged; RocksDB's own diary is nobody's data."""
    files = (folder / "log" / "a").iterdir()
    return sorted(f for f in files if f.stat().st_size and not f.name.startswith("LOG"))


def file_of(folder: Path, pattern: str, place: int = 0) -> Path:
    return [file for file in files_of(folder) if file.match(pattern)][place]


def flip(at: int, bit: int = 3) -> Change:
    def change(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[at] ^= 1 << bit
        file.write_bytes(data)

    return change


def delete_ids(folder: Path, slot: str, stream: Stream, first: int, last: int) -> None:
    """Delete records with these ids, as nothing in penstock does: only the records themselves."""
    with closing(open_alone(folder / "log" / slot)) as kv:
        entries = kv.scan(b"s", keys.past(b"s"))
        (own,) = [entry for entry, value in entries if keys.read_stream(value) == stream]
        records = keys.prefix(b"r", int.from_bytes(own[1:], "big"))
        batch = kv.batch()
        batch.delete_range(records + keys.key_of_id(first), records + keys.key_of_id(last + 1))
        kv.write(batch, sync=True)


def read_everything(folder: Path) -> Content:
    """All records, found in every way there is, which must agree."""
    content: Content = {}
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        for stream in reader.streams():
            found = list(reader.scan(stream))
            backwards = list(reader.scan(stream, reverse=True))
            by_time = list(reader.scan(stream, Span(since_ns=0)))
            by_number = list(reader.numbers(stream, "a", 1))
            assert found == backwards[::-1] == by_time
            assert by_number == sorted(found, key=lambda stored: stored.number)
            received = reader.received([stream], 0, 1 << 62, most=1 << 62).records
            assert [(each.number, each.record) for each in sorted(received, key=_number)] == [
                (stored.number, stored.record) for stored in by_number
            ]
            assert list(reader.keys_in(stream, [Span()])) == [stored.key for stored in found]
            content[stream] = [(stored.key, stored.number, stored.record) for stored in found]
    return content


_number = attrgetter("number")
