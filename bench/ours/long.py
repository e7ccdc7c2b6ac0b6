"""The log alone, for as long as it takes RocksDB to merge its tables again and again.

A process that appends records to a slot by the product's own writer and does nothing else. The
events are those of the decode benchmark, over and over, with ids and instants that rise. What is
told is the CPU time of the whole process, RocksDB's threads included, without what it takes to make
the events; merging that is still due in the end is waited for and counted. It reads one line,
``{"folder": …, "inputs": …, "records": …, "flush": …}``, and answers with one.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.inputs.stored import Inputs
from bench.ours.decode import Case, Replay
from msgspec.structs import replace

from penstock.market.events import AggTrade, BookDelta, Event, Ticker
from penstock.storage.log import open_log
from penstock.streaming.connection import Connection

PACE_NS = 100_000
"""Between two records: ten thousand a second."""
START_NS = 1_790_000_000_000_000_000
IDLE_S, IDLE_SHARE = 2.0, 0.05
"""A process that spends less than this share of a core for so long has nothing left to merge."""

Renew = Callable[[int, int], Event]
"""Makes an event of a later cycle, received at an instant."""


class _Kept(Case):
    """Keeps every event but snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        self.events += [each for each in events if isinstance(each, AggTrade | BookDelta | Ticker)]


def _renewing(event: Event) -> Renew:
    """An event as one of a later cycle: ids rise by more than one cycle has."""
    step = 1_000_000

    def renew(cycle: int, at_ns: int) -> Event:
        add = cycle * step
        match event:
            case AggTrade():
                return replace(event, received_at_ns=at_ns, at_ns=at_ns, id=event.id + add)
            case BookDelta(first_update_id=int(first), final_update_id=int(final)):
                ids = {"first_update_id": first + add, "final_update_id": final + add}
                return replace(event, received_at_ns=at_ns, at_ns=at_ns, **ids)
            case Ticker(update_id=int(number)):
                return replace(event, received_at_ns=at_ns, update_id=number + add)
        raise TypeError(f"{event} is not in the inputs")

    return renew


def _batches(renews: Sequence[Renew], records: int, flush: int) -> Iterator[list[Event]]:
    for first in range(0, records, flush):
        yield [
            renews[number % len(renews)](number // len(renews), START_NS + number * PACE_NS)
            for number in range(first, min(records, first + flush))
        ]


def measure(folder: str, inputs: str, records: int, flush: int) -> dict[str, Any]:
    """Append so many records, so many at once; microseconds of CPU per record."""
    replay, kept = Replay("binance", Inputs(Path(inputs))), _Kept()
    replay.run(replay.frames(""), kept, replay.connection(keep_levels=False))
    renews = [_renewing(event) for event in kept.events]
    with closing(open_log(f"rocksdb:{folder}").writer("bench")) as log:
        whole_s, own_s, making_s = time.process_time(), time.thread_time(), 0.0
        batches = _batches(renews, records, flush)
        while True:
            before_s = time.thread_time()
            batch = next(batches, None)
            making_s += time.thread_time() - before_s
            if batch is None:
                break
            if len(log.append(batch)) != len(batch):
                raise SystemExit("a record was taken for one that is there already")
        while True:
            before_s = time.process_time()
            time.sleep(IDLE_S)
            if time.process_time() - before_s < IDLE_S * IDLE_SHARE:
                break
        whole_s, own_s = time.process_time() - whole_s, time.thread_time() - own_s
        recorded = log.counts.recorded
    size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
    return {
        "us": 1e6 * (whole_s - making_s) / records,
        "rocksdb_threads_us": 1e6 * (whole_s - own_s) / records,
        "records": recorded,
        "bytes_per_record": size / records,
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(measure(**json.loads(line))), flush=True)
