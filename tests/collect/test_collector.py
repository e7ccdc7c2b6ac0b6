"""A collector, from its settings to its log, against the simulator in the same process."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace as replace_struct
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.metrics import measured
from penstock.app.simulator import build_simulator
from penstock.cli.judge import gather
from penstock.clock import SystemClock
from penstock.collect.collector import Collector
from penstock.collect.facts import (
    CollectorFailed,
    ExchangeSilent,
    LogUnwritable,
    LogWritable,
    StatusUnreadable,
    StatusUnwritable,
    StreamRecovered,
    StreamStalled,
)
from penstock.collect.status import CollectorStatus, read_all, read_status
from penstock.config import (
    Collect,
    Exchanges,
    Metrics,
    Requests,
    Settings,
    SimulatedBinance,
    Simulator,
)
from penstock.errors import NotStreaming, SlotInUse, StorageFull, UnknownChannel, UnknownSymbol
from penstock.exchanges.facts import RequestSent
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Event, Trade
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.judge import Judge
from penstock.storage.log import Durability, LogWriter, Stored, open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.telemetry import Fact, quiet

NAMES = ("BTCUSDT",)
SLOT = "collect-binance"
QUICK = Simulator(port=0, symbols=("btc_usdt",), uplink_ms=0, latency_ms=1)

Simulate = Callable[..., Awaitable[SimulatorServer]]


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """Start a simulator for the length of a test."""
    servers: list[SimulatorServer] = []

    async def start(settings: Simulator = QUICK) -> SimulatorServer:
        server = build_simulator(settings, SystemClock())
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


def settings(address: str, folder: Path, **collect: object) -> Settings:
    urls = {"binance": f"http://{address}"}
    patient = {"ack_timeout": PATIENCE_S, "min_silence": PATIENCE_S}
    given = {"data_dir": str(folder), "book_every": 0.3, "book_levels": 7, **patient, **collect}
    return Settings(
        collect=Collect(**given),  # type: ignore[arg-type]
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
        requests=Requests(attempts=1),
    )


@dataclass
class Life:
    """One run of a collector."""

    collector: Collector
    stop: asyncio.Event
    running: asyncio.Task[None]
    facts: list[Fact] = field(default_factory=list)

    async def until(self, true: Callable[[CollectorStatus], bool]) -> None:
        """Wait until its status is as wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while not true(self.collector.reporter.status("running")):
                assert not self.running.done(), "it ended by itself"
                await asyncio.sleep(0.02)


@asynccontextmanager
async def collecting(wanted: Settings, names: Sequence[str] = NAMES) -> AsyncIterator[Life]:
    """A collector that runs; in the end it is stopped, and must obey soon."""
    facts: list[Fact] = []
    async with open_collector(wanted, "binance", SystemClock(), facts.append) as collector:
        stop = asyncio.Event()
        life = Life(collector, stop, asyncio.create_task(collector.run(names, stop)), facts)
        try:
            yield life
        finally:
            stop.set()
            async with asyncio.timeout(PATIENCE_S):
                await life.running


def streaming(status: CollectorStatus) -> bool:
    """Every book is synced, and the busiest market's trades have begun to be recorded."""
    traded = any(s.channel == "trades" and s.symbol == "btc_usdt" for s in status.streams)
    synced = bool(status.books) and all(book.state == "synced" for book in status.books)
    return traded and synced


async def trades_after(server: SimulatorServer, before: int, count: int = 2) -> None:
    """Wait until the exchange has had so many trades after one with a given id."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(PATIENCE_S):
        latest = before
        while latest < before + count:
            await asyncio.sleep(0.02)
            asked = {"symbol": "BTCUSDT", "limit": "1"}
            async with http.get(f"http://{server.address}/api/v3/trades", params=asked) as answer:
                latest = (await answer.json())[-1]["id"]


def recorded_ids(folder: Path, slug: str) -> list[int | None]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        return [id_of_key(stored.key) for stored in reader.scan(Stream("binance", "trades", slug))]


def missing(folder: Path, slug: str) -> list[tuple[int, int]]:
    status = read_status(folder, SLOT)
    assert status is not None
    return next(ids.missing for ids in status.ids if ids.symbol == slug)


async def test_it_records_keeps_books_and_stops_with_nothing_missing(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert (status.state, status.malformed, status.reconnects) == ("stopped", {}, {})
    ids = [number for number in recorded_ids(tmp_path, "btc_usdt") if number is not None]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert missing(tmp_path, "btc_usdt") == []
    asked = [fact.path for fact in life.facts if isinstance(fact, RequestSent)]
    assert sum(path.endswith("/depth") for path in asked) >= 1, "books come through the gateway"
    weight = next(limit for limit in status.limits if limit.unit == "weight")
    assert (weight.amount, weight.period_ms) == (6000, 60_000), "as the exchange announced it"
    assert 0 <= weight.used < weight.amount
    assert {(book.state, book.was_synced) for book in status.books} == {("stopped", True)}


async def test_the_final_probe_closes_the_list_of_what_is_missing(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)
        async with aiohttp.ClientSession() as http:
            await http.post(f"http://{server.address}/_sim/faults", json={"plan": "drop@*@trade=1"})
        before = life.collector.continuity.last(Stream("binance", "trades", "btc_usdt"))
        assert before is not None
        await trades_after(server, before, 30)

    last = recorded_ids(tmp_path, "btc_usdt")[-1]
    assert last is not None
    assert last <= before + 100
    [(first_missing, last_missing)] = missing(tmp_path, "btc_usdt")
    assert first_missing == last + 1
    assert last_missing > first_missing


async def test_without_consecutive_ids_the_newest_trades_are_recorded_in_the_end(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        life.collector.exchange = replace(life.collector.exchange, consecutive=frozenset())
        await life.until(streaming)
        async with aiohttp.ClientSession() as http:
            await http.post(f"http://{server.address}/_sim/faults", json={"plan": "drop@*@trade=1"})
        before = recorded_ids(tmp_path, "btc_usdt")[-1]
        assert before is not None
        await trades_after(server, before, 30)
        stopped_ms = SystemClock().now_ms()

    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        events = [each.event for each in log.scan(Stream("binance", "trades", "btc_usdt"))]
    trades = [event for event in events if isinstance(event, Trade)]
    ids = [trade.id for trade in trades]
    assert ids == sorted(set(ids)), "none is recorded twice"
    assert ids[-100:] == list(range(ids[-1] - 99, ids[-1] + 1))
    assert trades[-1].at_ms > stopped_ms - 400


def books_recorded(status: CollectorStatus) -> int:
    return sum(each.records for each in status.streams if each.channel == "book_snapshots")


async def test_a_book_shows_no_level_beyond_its_snapshot(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path, book_depth=20, book_levels=50, book_every=0.05)
    async with collecting(wanted) as life:
        await life.until(streaming)
        await life.until(lambda status: books_recorded(status) > 20)

    evidence = gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), "binance")
    async with aiohttp.ClientSession() as http:
        findings = await Judge(http, f"http://{server.address}").judge(evidence)
    assert findings.books_checked > 10
    assert findings.book_mismatches == 0


async def test_a_lost_connection_is_recorded_and_books_begin_with_recorded_snapshots(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path, book_every=60)) as life:
        await life.until(streaming)
        async with aiohttp.ClientSession() as http:
            await http.post(f"http://{server.address}/_sim/disconnect")
        await life.until(lambda status: status.books[0].resyncs == 1)
        await life.until(streaming)

    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        found = log.scan(Stream("binance", "disconnects", "btc_usdt"))
        marker, last = (each.event for each in found)
        books = [each.event for each in log.scan(Stream("binance", "book_snapshots", "btc_usdt"))]
        deltas = [each.event for each in log.scan(Stream("binance", "book_deltas", "btc_usdt"))]
    assert isinstance(marker, Disconnect)
    assert marker.channels == ("trades", "book_deltas", "tickers")
    assert "cut off" in marker.reason
    assert isinstance(last, Disconnect)
    assert last.reason == "stopped"
    begun = [book for book in books if isinstance(book, BookSnapshot) and book.source == "rest"]
    assert [book.received_at_ns > marker.received_at_ns for book in begun] == [False, True]
    after = [each for each in deltas if each.received_at_ns > marker.received_at_ns]
    assert isinstance(after[0], BookDelta)
    assert after[0].first_update_id is not None
    assert begun[1].update_id >= after[0].first_update_id - 1, "it reaches what came since"


async def test_started_again_it_knows_what_it_missed_while_away(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)
    before = recorded_ids(tmp_path, "btc_usdt")
    last = before[-1]
    assert last is not None
    await trades_after(server, last)
    async with collecting(wanted) as life:
        await life.until(streaming)
    after = recorded_ids(tmp_path, "btc_usdt")

    assert after[: len(before)] == before
    first = after[len(before)]
    assert first is not None
    assert missing(tmp_path, "btc_usdt") == [(last + 1, first - 1)]
    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as reader:
        assert reader.slots() == [SLOT]


async def test_an_exchange_that_is_silent_at_first_is_asked_until_it_answers(
    tmp_path: Path, simulate: Simulate, unused_tcp_port: int
) -> None:
    wanted = settings(f"127.0.0.1:{unused_tcp_port}", tmp_path)
    async with collecting(wanted) as life:
        await life.until(lambda status: status.trouble != "")
        written = read_status(tmp_path, SLOT)
        assert written is not None
        assert written.state == "starting"
        assert str(unused_tcp_port) in written.trouble
        await simulate(Simulator(port=unused_tcp_port, symbols=QUICK.symbols))
        await life.until(streaming)
        await life.until(lambda status: status.trouble == "")

    assert any(isinstance(fact, ExchangeSilent) for fact in life.facts)


async def test_told_to_stop_while_nobody_answers_it_stops_and_forgets_no_gap(
    tmp_path: Path, simulate: Simulate, unused_tcp_port: int
) -> None:
    server = await simulate(
        Simulator(port=0, symbols=QUICK.symbols, faults="drop@btcusdt@trade=0.2")
    )
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(lambda status: any(ids.missing for ids in status.ids))
    known = missing(tmp_path, "btc_usdt")
    async with collecting(settings(f"127.0.0.1:{unused_tcp_port}", tmp_path)) as life:
        await life.until(lambda status: status.trouble != "")
        assert missing(tmp_path, "btc_usdt") == known

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.state == "stopped"
    assert missing(tmp_path, "btc_usdt") == known


async def test_an_exchange_that_fell_silent_does_not_hold_up_the_end(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    # The context below allows it ten seconds.
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)
        await server.stop()

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.state == "stopped"
    assert "the final probe of the exchange failed" in status.trouble


async def test_a_market_named_twice_is_one_market(tmp_path: Path, simulate: Simulate) -> None:
    server = await simulate()
    names = ("btc_usdt", "BTC/USDT", "BTCUSDT")
    async with collecting(settings(server.address, tmp_path), names) as life:
        await life.until(streaming)

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert [book.symbol for book in status.books] == ["btc_usdt"]
    asked = [fact.path for fact in life.facts if isinstance(fact, RequestSent)]
    assert sum(path.endswith("/trades") for path in asked) == 1


@pytest.mark.parametrize(
    ("names", "channels", "error", "says"),
    [
        (("btc_usd",), ("trades",), UnknownSymbol, "Did you mean btc_usdt"),
        (("btc_usdt",), ("candles_7m",), UnknownChannel, "binance has no channel 'candles_7m'"),
    ],
)
async def test_what_the_exchange_does_not_have_is_refused_at_the_start(
    tmp_path: Path,
    simulate: Simulate,
    names: tuple[str, ...],
    channels: tuple[str, ...],
    error: type[Exception],
    says: str,
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path, channels=channels)
    with pytest.raises(error, match=says):
        async with collecting(wanted, names) as life:
            await life.running

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.state == "failed"
    assert says in status.trouble
    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        assert log.streams() == []


async def test_a_channel_that_is_not_registered_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    wanted = settings("127.0.0.1:1", tmp_path, channels=("trades", "tickrs"))
    with pytest.raises(UnknownChannel, match=r"'tickrs'\. Did you mean tickers"):
        async with open_collector(wanted, "binance", SystemClock()):
            pytest.fail("it was let in")

    assert read_all(tmp_path) == []
    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        assert log.slots() == []


async def test_a_second_one_in_the_same_folder_is_refused(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)
        with pytest.raises(SlotInUse):
            async with open_collector(wanted, "binance", SystemClock()):
                pytest.fail("it was let in")
        await life.until(streaming)


async def test_a_status_that_cannot_be_written_does_not_stop_collecting(
    tmp_path: Path, simulate: Simulate
) -> None:
    (tmp_path / "status" / f"{SLOT}.new").mkdir(parents=True)
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)

    assert len(recorded_ids(tmp_path, "btc_usdt")) > 0
    assert read_status(tmp_path, SLOT) is None
    assert sum(isinstance(fact, StatusUnwritable) for fact in life.facts) == 1


async def test_a_status_in_pieces_is_made_good_from_the_log(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate(
        Simulator(port=0, symbols=QUICK.symbols, faults="drop@btcusdt@trade=0.2")
    )
    wanted = settings(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(lambda status: any(len(ids.missing) > 2 for ids in status.ids))
    known = missing(tmp_path, "btc_usdt")
    (tmp_path / "status" / f"{SLOT}.json").write_bytes(b"")

    facts: list[Fact] = []
    async with open_collector(wanted, "binance", SystemClock(), facts.append) as collector:
        [ids] = [ids for ids in collector.continuity.status() if ids.symbol == "btc_usdt"]

    # Only a lost tail, which the exchange told of, is not in the log.
    assert ids.missing in (known, known[:-1])
    assert [type(fact) for fact in facts] == [StatusUnreadable]


@dataclass
class Refusing:
    """A log that has no room for the books which the collector shows of itself, for a while."""

    log: LogWriter
    is_full: bool = True
    on_disk: bool = True

    def append(self, events: Sequence[Event], durability: Durability = "flushed") -> list[Stored]:
        small = (isinstance(event, BookSnapshot) and len(event.bids) <= 7 for event in events)
        if self.is_full and any(small):
            raise StorageFull("/here", "no room")
        return self.log.append(events, durability)

    def sync(self) -> None:
        self.log.sync()


def refuse(life: Life) -> Refusing:
    """From now on its log has no room for the books that it shows."""
    recorder = life.collector.recorder._recorder
    recorder._log = refusing = Refusing(recorder._log)  # type: ignore[assignment]
    return refusing


def waits_for_room(status: CollectorStatus) -> bool:
    return "disk full" in status.trouble and status.unrecorded > 0


async def test_while_the_log_has_no_room_everything_waits_and_then_goes_on(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)
        refusing = refuse(life)
        await life.until(waits_for_room)
        before = recorded_ids(tmp_path, "btc_usdt")
        last = before[-1]
        assert last is not None
        await trades_after(server, last, 5)
        assert recorded_ids(tmp_path, "btc_usdt") == before, "in the order they came"
        refusing.is_full = False
        await life.until(lambda status: status.trouble == "")

    told = [fact for fact in life.facts if isinstance(fact, LogUnwritable | LogWritable)]
    assert [type(fact) for fact in told] == [LogUnwritable, LogWritable]
    ids = [number for number in recorded_ids(tmp_path, "btc_usdt") if number is not None]
    assert len(ids) > len(before)
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert missing(tmp_path, "btc_usdt") == []


async def test_stopped_without_room_it_gives_up_in_time_and_says_that_it_failed(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()

    async def collect() -> None:
        async with collecting(settings(server.address, tmp_path, stop_timeout=0.5)) as life:
            await life.until(streaming)
            refuse(life)
            await life.until(waits_for_room)

    with pytest.raises(StorageFull, match="no room"):
        await collect()

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.state == "failed"
    assert status.trouble.startswith("StorageFull: /here: no room")


async def test_a_mistake_of_its_own_is_written_with_its_reason(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await simulate()
    facts: list[Fact] = []

    async def collect() -> None:
        async with collecting(settings(server.address, tmp_path)) as life:
            facts[:] = []
            await life.until(streaming)

            def fail(*_: object) -> None:
                raise ZeroDivisionError("nobody thought of it")

            monkeypatch.setattr(life.collector._detector, "heard", fail)
            for session in life.collector._sessions._sessions.values():  # type: ignore[union-attr]
                session.session._on_events = fail
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.wait([life.running])
            facts.extend(life.facts)

    with pytest.raises(ZeroDivisionError):
        await collect()

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert (status.state, status.trouble) == ("failed", "ZeroDivisionError: nobody thought of it")
    [failed] = [fact for fact in facts if isinstance(fact, CollectorFailed)]
    assert "in fail" in failed.traceback


async def test_a_stream_that_stalls_is_subscribed_again_and_then_rotated(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate(replace_struct(QUICK, faults="mute@btcusdt@trade=4s"))
    wanted = settings(server.address, tmp_path, min_silence=1.0, first_message_timeout=2.0)
    async with collecting(wanted) as life:
        await life.until(streaming)
        await life.until(lambda status: status.stalled == ["trades btc_usdt"])
        await life.until(lambda status: bool(status.shards[0].rotations))
        await life.until(lambda status: status.stalled == [])

    remedies = [fact.remedy for fact in life.facts if isinstance(fact, StreamStalled)]
    assert remedies[:2] == ["asked_anew", "rotated"]
    assert any(isinstance(fact, StreamRecovered) for fact in life.facts)
    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.stalled == []


TWO = Simulator(port=0, symbols=("btc_usdt", "eth_usdt"), uplink_ms=0, latency_ms=1)


def streamed(status: CollectorStatus) -> set[str]:
    """Markets whose books are synced."""
    return {book.symbol for book in status.books if book.state == "synced"}


async def test_symbols_are_added_and_removed_while_the_others_go_on(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate(TWO)
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)
        with pytest.raises(UnknownSymbol, match="Did you mean"):
            life.collector.add(["eth_usdt", "btc_usd"])
        life.collector.add(["ETH/USDT"])
        await life.until(lambda status: streamed(status) == {"btc_usdt", "eth_usdt"})
        await life.collector.replace(["eth_usdt"])
        await life.until(lambda status: streamed(status) == {"eth_usdt"})
        recorded, before = recorded_ids(tmp_path, "btc_usdt"), list[int | None]()
        while recorded != before:
            before = recorded
            await trades_after(server, before[-1] or 0, 40)
            recorded = recorded_ids(tmp_path, "btc_usdt")
        status = life.collector.reporter.status("running")

    assert status.reconnects == {}
    assert [book.resyncs for book in status.books] == [0]
    assert len(status.shards) == 1, "all on one connection"
    assert status.shards[0].members[0].asked == 3
    with pytest.raises(NotStreaming, match="Retry"):
        life.collector.add(["btc_usdt"])


async def test_a_market_that_was_listed_since_can_be_added(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path)) as life:
        await life.until(streaming)
        with pytest.raises(UnknownSymbol):
            await life.collector.replace(["btc_usdt", "eth_usdt"])
        assert streamed(life.collector.reporter.status("running")) == {"btc_usdt"}
        await server.stop()
        await simulate(replace_struct(TWO, port=int(server.address.rpartition(":")[2])))
        with pytest.raises(UnknownSymbol):
            life.collector.add(["eth_usdt"])
        await life.until(lambda status: status.reconnects != {} and streaming(status))
        await life.collector.replace(["btc_usdt", "eth_usdt"])
        await life.until(lambda status: streamed(status) == {"btc_usdt", "eth_usdt"})
        asked = sum(
            isinstance(fact, RequestSent) and "exchangeInfo" in fact.path for fact in life.facts
        )

    assert asked == 3, "at the start, and for each name that was not known"


async def test_streams_beyond_what_a_connection_carries_go_to_another(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate(TWO)
    wanted = settings(server.address, tmp_path, streams_per_connection=4)
    async with collecting(wanted, ("btc_usdt", "eth_usdt")) as life:
        await life.until(lambda status: streamed(status) == {"btc_usdt", "eth_usdt"})
        status = life.collector.reporter.status("running")
        assert [shard.members[0].asked for shard in status.shards] == [4, 2]
        life.collector.remove(["btc_usdt"])
        await life.until(lambda status: sum(s.members[0].asked for s in status.shards) == 3)
        life.collector.add(["btc_usdt"])
        await life.until(lambda status: streamed(status) == {"btc_usdt", "eth_usdt"})

    written = read_status(tmp_path, SLOT)
    assert written is not None
    assert written.reconnects == {}
    assert missing(tmp_path, "eth_usdt") == []


async def test_with_redundancy_a_cut_connection_loses_nothing(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(settings(server.address, tmp_path, redundancy=2)) as life:
        await life.until(streaming)
        await life.until(lambda status: status.shards[0].dropped > 20)
        async with aiohttp.ClientSession() as http:
            await http.post(f"http://{server.address}/_sim/disconnect?connection=1")
        await life.until(lambda status: bool(status.reconnects))
        await life.until(
            lambda status: (
                [member.state for member in status.shards[0].members] == ["connected"] * 2
            )
        )
        assert [book.resyncs for book in life.collector.reporter.status("running").books] == [0]

    ids = [number for number in recorded_ids(tmp_path, "btc_usdt") if number is not None]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert missing(tmp_path, "btc_usdt") == []


async def test_an_announced_shutdown_loses_nothing(tmp_path: Path, simulate: Simulate) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path, overlap=0.2)
    async with collecting(wanted) as life:
        await life.until(streaming)
        async with aiohttp.ClientSession() as http:
            await http.post(
                f"http://{server.address}/_sim/shutdown_notice", json={"after_ms": 5000}
            )
        await life.until(lambda status: bool(status.shards[0].rotations))
        await life.until(streaming)

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert status.shards[0].rotations == {"the exchange announced its shutdown": 1}
    assert status.reconnects == {}
    ids = [number for number in recorded_ids(tmp_path, "btc_usdt") if number is not None]
    assert ids == list(range(ids[0], ids[0] + len(ids)))


async def test_an_exchange_that_ends_every_connection_after_a_while_is_never_cut_off(
    tmp_path: Path, simulate: Simulate
) -> None:
    brief = Simulator(
        port=0,
        symbols=QUICK.symbols,
        uplink_ms=0,
        binance=SimulatedBinance(connection_lifetime=8.0),
    )
    server = await simulate(brief)
    wanted = settings(server.address, tmp_path, rotate_after=2.0, overlap=0.2, audit_every=0)
    async with collecting(wanted) as life:
        await life.until(lambda status: bool(status.shards))
        await life.until(lambda status: sum(status.shards[0].rotations.values()) >= 3)
        await life.until(streaming)

    status = read_status(tmp_path, SLOT)
    assert status is not None
    assert (status.reconnects, status.books[0].resyncs) == ({}, 0)
    assert missing(tmp_path, "btc_usdt") == []
    asked = [fact.path for fact in life.facts if isinstance(fact, RequestSent)]
    assert sum(path.endswith("/depth") for path in asked) == 1, "books are handed over for nothing"


async def test_prometheus_is_shown_records_missing_ids_malformed_frames_and_gaps(
    tmp_path: Path, simulate: Simulate, unused_tcp_port: int
) -> None:
    server = await simulate(replace_struct(QUICK, faults="drop=0.1,malformed=0.1"))
    wanted = replace_struct(
        settings(server.address, tmp_path, channels=("trades",)),
        metrics=Metrics(port=unused_tcp_port),
    )
    patterns = (
        r'penstock_records_total{channel="trades",exchange="binance",symbol="btc_usdt"} [1-9]',
        r'penstock_missing_ids{channel="trades",exchange="binance",symbol="btc_usdt"} [1-9]',
        r'penstock_malformed_frames_total{exchange="binance",reason="\w+"} [1-9]',
        r'penstock_gaps_total{cause="lost",channel="trades",exchange="binance"} [1-9]',
        r"# TYPE penstock_refusals_total counter",
    )
    with measured(wanted, quiet):
        async with collecting(wanted), aiohttp.ClientSession() as http, asyncio.timeout(PATIENCE_S):
            text = ""
            while not all(re.search(pattern, text) for pattern in patterns):
                await asyncio.sleep(0.1)
                async with http.get(f"http://127.0.0.1:{unused_tcp_port}/metrics") as answer:
                    text = await answer.text()


async def test_how_long_answers_are_waited_for_and_how_pauses_grow_can_be_set(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path, ack_timeout=0.7, retry_multiplier=3.0)
    async with collecting(wanted) as life:
        await life.until(streaming)
        assert life.collector._sessions is not None
        plan = life.collector._sessions.shards[0].plan
    assert (plan.ack_within_s, plan.reconnect.multiplier) == (0.7, 3.0)
