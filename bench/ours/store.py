"""Our side of the store benchmark: from a socket to the log on disk, and to a listener.

Everything is what a collector is made of; only the exchange's REST side is missing, and snapshots
are handed in where it would be asked. Each line it reads is a folder and a number of messages; it
answers with one JSON line when all of them are durable, published and taken.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from bench.inputs.stored import Inputs
from bench.ours.decode import Replay
from rocksdict import Rdict

from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.market.events import AggTrade, BookSnapshot, Disconnect
from penstock.publish import Published
from penstock.publish.memory import MemoryPublisher
from penstock.recorder import Recorder
from penstock.storage.log import Stored, open_log, received_at_ns
from penstock.streaming.shard import Shard

SLOT = "bench"
DAWDLE_S = 180
TRADES_AT_ONCE = 100
"""What a busy market brings between two flushes."""
WARM_S = 1.0
"""At a pace, waits count from here on: what comes first waits for books to be loaded."""
NS = 1_000_000_000


@dataclass
class Watch:
    """Stands between the recorder and the publisher, and notes when what was durable."""

    clock: SystemClock
    publisher: MemoryPublisher
    durable: list[tuple[int, Sequence[Published]]] = field(default_factory=list)

    def publish(self, messages: Sequence[Published]) -> None:
        """Only what is in the log reaches a publisher: it is durable now."""
        self.durable.append((self.clock.now_ns(), messages))
        self.publisher.publish(messages)

    def close(self) -> None:
        self.publisher.close()


async def collect(
    replay: Replay, url: str, folder: Path, messages: int, *, paced: bool
) -> dict[str, object]:
    """Stream so many messages into a fresh log, and say how long everything took."""
    clock, stop = SystemClock(), asyncio.Event()
    watch = Watch(clock, MemoryPublisher())
    subscription = watch.publisher.subscribe(capacity=2 * messages)
    taken: list[tuple[int, Sequence[Published]]] = []
    expected = messages + len(replay.symbols)

    async def take() -> None:
        count = 0
        while count < expected:
            batch = await subscription.receive()
            taken.append((clock.now_ns(), batch))
            count += len(batch)
        stop.set()

    async def fetch_book(command: FetchSnapshot, _: Callable[[], bool]) -> BookSnapshot:
        return replay.snapshot(command.symbol, clock.now_ns())

    with closing(open_log(f"rocksdb:{folder}").writer(SLOT)) as log:
        recorder = Recorder(log, watch)
        shard = replay.shard()
        session = Session(
            shard,
            Endpoint("binance", url, DAWDLE_S),
            SessionHooks(recorder.record, fetch_book),
            clock,
        )
        gc.collect()
        cpu_s = time.process_time()
        async with asyncio.timeout(DAWDLE_S):
            await asyncio.gather(session.run(stop), take())
        cpu_s = time.process_time() - cpu_s
        recorder.close()
        repeated = log.counts.repeated
    _check(shard, repeated)
    first_ns = min(received_at_ns(message.record) for message in taken[0][1])
    warm_ns = first_ns + round(WARM_S * NS) if paced else first_ns
    return {
        "wall_s": (taken[-1][0] - first_ns) / NS,
        "cpu_s": cpu_s,
        "durable_ms": _percentiles(watch.durable, warm_ns),
        "published_ms": _percentiles(taken, warm_ns),
    }


def _check(shard: Shard, repeated: int) -> None:
    wrong, stats = (
        [name for name, book in shard.books.items() if book.state != "synced"],
        shard.stats,
    )
    if wrong or stats.malformed or stats.reconnects or repeated:
        raise SystemExit(f"{wrong} {stats.malformed} {stats.reconnects} {repeated}")


def _percentiles(
    batches: Sequence[tuple[int, Sequence[Published]]], from_ns: int
) -> dict[str, float]:
    """Milliseconds from the receipt of each message to the instant its batch was noted."""
    waits = sorted(
        at_ns - received_ns
        for at_ns, batch in batches
        for message in batch
        if (received_ns := received_at_ns(message.record)) >= from_ns
    )
    return {
        name: round(waits[min(len(waits) - 1, int(len(waits) * share))] / 1e6, 2)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def read_back(folder: Path) -> list[Stored]:
    """Every record of the log, decoded once."""
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        records = [record for stream in reader.streams() for record in reader.scan(stream)]
    for record in records:
        assert record.event.exchange == "binance"
    return records


def weigh_trades(source: Path, target: Path) -> dict[str, object]:
    """Record the trades of a log alone in another one, and weigh its tables once compacted."""
    trades = [record.event for record in read_back(source) if isinstance(record.event, AggTrade)]
    with closing(open_log(f"rocksdb:{target}").writer(SLOT)) as log:
        for start in range(0, len(trades), TRADES_AT_ONCE):
            log.append(trades[start : start + TRADES_AT_ONCE])
    folder = target / "log" / SLOT
    with closing(Rdict(str(folder))) as db:
        db.compact_range(None, None)
    tables = sum(table.stat().st_size for table in folder.glob("*.sst"))
    return {"trades": len(trades), "bytes_per_trade": round(tables / len(trades), 1)}


class Question(msgspec.Struct):
    """What is asked: to collect, to read back, or to write the trades alone into another log."""

    folder: str
    messages: int = 0
    paced: bool = False
    trades_to: str = ""


async def main() -> None:
    replay, url = Replay("binance", Inputs(Path(sys.argv[1]))), sys.argv[2]
    for line in sys.stdin:
        question = msgspec.json.decode(line, type=Question)
        folder = Path(question.folder)
        if question.trades_to:
            result = weigh_trades(folder, Path(question.trades_to))
        elif question.messages:
            result = await collect(replay, url, folder, question.messages, paced=question.paced)
        else:
            # Beside what was sent there is a marker per market, of the end of collecting.
            records = [each for each in read_back(folder) if not isinstance(each.event, Disconnect)]
            result = {"records": len(records)}
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
