"""The books' maintainer, on a clock moved by hand, with an exchange that answers from a table."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import msgspec
import pytest
from tests import events

from penstock.books.book_set import BookSet
from penstock.books.commands import FetchSnapshot
from penstock.books.restarts import BookRestarts
from penstock.books.rules import BookRules
from penstock.books.sequenced import SequencedBook
from penstock.books.streamed import StreamedBook
from penstock.clock import ManualClock
from penstock.collect.availability import RestAvailability
from penstock.collect.books import BookMaintainer
from penstock.collect.facts import BookDrifted, RequestsResumed, RequestsSuspended, SnapshotFailed
from penstock.config import Collect
from penstock.errors import ConnectorPaused, StoreUnreachable
from penstock.exchanges import registry
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer
from penstock.market.events import BookDelta, BookSnapshot, Event
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

EXCHANGE = registry.load("binance")
SYMBOLS = [Symbol(f"S{number:03}", "USDT") for number in range(130)]
LISTED = SymbolMap("binance", [(f"{each.base}{each.quote}", each) for each in SYMBOLS])
A, B = SYMBOLS[:2]
COST = 5
"""Of a book of at most 100 levels."""
AMPLE = Limit(6000, 60_000)
NUMBERED = BookRules()
UNPROVEN = BookRules(begins="stream")


@dataclass
class Market:
    """The exchange's side: every symbol's book, who asked for it, and when it answers."""

    clock: ManualClock
    bids: list[LevelText] = field(default_factory=lambda: ladder(100, -1))
    asks: list[LevelText] = field(default_factory=lambda: ladder(101, 1))
    update_id: int = 10
    asked: list[str] = field(default_factory=list)
    asked_ms: list[int] = field(default_factory=list)
    takes_s: float = 0.1
    failure: Exception | None = None

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        self.asked.append(str(params["symbol"]))
        self.asked_ms.append(self.clock.now_ms())
        depth = int(params["limit"])
        await self.clock.sleep(self.takes_s)
        if self.failure is not None:
            raise self.failure
        body = {
            "lastUpdateId": self.update_id,
            "bids": self.bids[:depth],
            "asks": self.asks[:depth],
        }
        return Answer(200, {}, msgspec.json.encode(body))

    async def close(self) -> None:
        pass


def ladder(best: int, step: int, length: int = 10) -> list[LevelText]:
    return [(f"{best + step * n}.0", "1.0") for n in range(length)]


@dataclass
class Stage:
    """A maintainer with everything around it."""

    clock: ManualClock
    market: Market
    gate: LocalGate
    maintainer: BookMaintainer
    books: BookSet
    recorded: list[Event]
    facts: list[Fact]

    def numbered(self, symbol: Symbol) -> SequencedBook:
        book = self.books[symbol]
        assert isinstance(book, SequencedBook)
        return book

    async def begin(self, symbol: Symbol) -> None:
        """Sync a numbered book as a connection would."""
        sync = self.numbered(symbol)
        sync.receive(delta(symbol, self.market.update_id, self.market.update_id))
        fetching = asyncio.create_task(self.fetch(symbol))
        await self.clock.advance(1)
        snapshot = await fetching
        assert snapshot is not None
        assert sync.begin(snapshot)

    async def fetch(
        self, symbol: Symbol, *, lost: bool = False, wanted: Callable[[], bool] = lambda: True
    ) -> BookSnapshot | None:
        return await self.maintainer.fetch(FetchSnapshot(symbol, 0.0, lost), wanted)

    async def maintain(self, seconds: float, step: float = 0.1) -> None:
        """Let the maintainer run for a while."""
        running = asyncio.create_task(self.maintainer.run())
        for _ in range(round(seconds / step)):
            await self.clock.advance(step)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def delta(symbol: Symbol, first: int, final: int, bids: Sequence[LevelText] = ()) -> BookDelta:
    return events.delta(first, final, symbol, "binance", at_ns=final, bids_raw=write_levels(bids))


def in_stream(symbol: Symbol, bids: list[LevelText], asks: list[LevelText]) -> BookSnapshot:
    return BookSnapshot(
        exchange="binance", symbol=symbol, received_at_ns=0, at_ns=7,
        bids_raw=write_levels(bids), asks_raw=write_levels(asks),
    )  # fmt: skip


def stage(
    count: int = 1,
    limit: Limit = AMPLE,
    rules: BookRules = NUMBERED,
    **settings: float,
) -> Stage:
    clock = ManualClock(now_ms=1_700_000_040_000)
    market, facts = Market(clock), list[Fact]()
    gate = LocalGate(clock, [limit], acquire_timeout_ms=200_000)
    gateway = Gateway(EXCHANGE, market, gate, clock)
    books = BookSet(rules, BookRestarts(Backoff(first_s=1.0), lambda: 0.0, 0))
    books.add(SYMBOLS[:count])
    recorded: list[Event] = []

    async def record(events: Sequence[Event]) -> None:
        recorded.extend(events)

    maintainer = BookMaintainer(
        gateway=gateway, rest=EXCHANGE.rest(LISTED), books=lambda: books, rules=rules,
        book_event=books.handle,
        record=record, clock=clock, emit=facts.append,
        availability=RestAvailability("toy", clock, emit=facts.append),
        settings=Collect(**{"book_depth": 5, "audit_every": 0, **settings}),  # type: ignore[arg-type]
    )  # fmt: skip
    return Stage(clock, market, gate, maintainer, books, recorded, facts)


# Admission.


def cancel(tasks: Sequence[asyncio.Task[BookSnapshot | None]]) -> Awaitable[object]:
    for task in tasks:
        task.cancel()
    return asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lost_book_overtakes_all_that_are_not_yet_at_the_gate() -> None:
    scene = stage(40, Limit(2 * COST, 60_000), snapshots_at_once=3)
    lost = SYMBOLS[39]
    cold = [asyncio.create_task(scene.fetch(symbol)) for symbol in SYMBOLS[:39]]
    await scene.clock.advance(5)
    assert len(scene.market.asked) == 2, "the window is full, three wait for the next"

    late = asyncio.create_task(scene.fetch(lost, lost=True))
    await scene.clock.advance(150)

    assert late.done()
    assert scene.market.asked.index("S039USDT") == 2 + 3
    await cancel(cold)


async def test_a_book_that_no_longer_wants_its_snapshot_costs_nothing() -> None:
    scene = stage(3, Limit(2 * COST, 60_000), snapshots_at_once=1)
    wanted = set(scene.books)
    fetching = [
        asyncio.create_task(scene.fetch(symbol, wanted=partial(wanted.__contains__, symbol)))
        for symbol in scene.books
    ]
    await scene.clock.advance(0.01)
    wanted.discard(B)
    await scene.clock.advance(5)

    assert await fetching[1] is None
    assert scene.market.asked == ["S000USDT", "S002USDT"]
    assert [*scene.gate.used().values()] == [2 * COST]


async def test_all_books_lost_at_once_are_fetched_within_the_limit_and_none_is_given_up() -> None:
    scene = stage(125, Limit(20 * COST, 60_000))
    fetching = [asyncio.create_task(scene.fetch(symbol, lost=True)) for symbol in scene.books]
    for _ in range(8):
        await scene.clock.advance(60)

    assert all(await asyncio.gather(*fetching)), "none ran out of patience"
    windows = [at_ms // 60_000 for at_ms in scene.market.asked_ms]
    assert max(windows.count(window) for window in windows) == 20
    assert windows[-1] - windows[0] == 6, "and no window was left unused"


# Audits of numbered books.


async def test_an_audit_of_a_right_book_finds_nothing_and_is_noted() -> None:
    scene = stage(audit_every=10.0)
    await scene.begin(A)
    await scene.maintain(12)

    health = scene.maintainer.health_of(A)
    assert (health.audited.audits, health.audited.drift) == (1, 0)
    assert health.audited.at_ms is not None
    assert (scene.books[A].resyncs, scene.facts) == (0, [])
    assert scene.recorded == [], "a snapshot that changes nothing is not worth its place"


async def test_a_wrong_book_begins_again_from_the_snapshot_that_showed_it() -> None:
    scene = stage(audit_every=10.0)
    await scene.begin(A)
    sync = scene.numbered(A)
    assert sync.levels is not None
    wrong = write_levels([("99.0", "0"), ("98.0", "7.0"), ("98.5", "1.0")])
    sync.levels.apply_raw(wrong, write_levels([]))
    await scene.maintain(12)

    assert (sync.state, sync.resyncs) == ("synced", 1)
    assert sync.levels.texts(5)[0] == scene.market.bids[:5]
    assert scene.maintainer.health_of(A).audited.drift == 3
    assert scene.facts == [BookDrifted(exchange="binance", symbol=A.slug, levels=3)]
    [begun] = scene.recorded
    assert isinstance(begun, BookSnapshot)
    assert (begun.source, begun.update_id) == ("rest", 10)


async def test_an_audit_waits_for_the_stream_to_catch_up() -> None:
    scene = stage(audit_every=10.0)
    await scene.begin(A)
    scene.market.update_id, scene.market.bids[0] = 12, ("100.0", "3.0")
    running = asyncio.create_task(scene.maintain(14))
    await scene.clock.advance(0)
    while not scene.market.asked[1:]:
        await scene.clock.advance(0.1)
    await scene.clock.advance(1)
    assert scene.maintainer.health_of(A).audited.audits == 0

    scene.numbered(A).receive(delta(A, 11, 11))
    scene.numbered(A).receive(delta(A, 12, 13, [("100.0", "3.0")]))
    await running

    assert scene.maintainer.health_of(A).audited.drift == 0
    assert scene.numbered(A).update_id == 13


async def test_audits_are_spread_over_the_books_and_over_time() -> None:
    scene = stage(4, audit_every=40.0)
    for symbol in scene.books:
        await scene.begin(symbol)
    began = len(scene.market.asked)
    await scene.maintain(81)

    assert scene.market.asked[began:] == [LISTED.native(each) for each in SYMBOLS[:4]] * 2
    at_s = [at_ms // 1000 for at_ms in scene.market.asked_ms[began:]]
    assert [later - earlier for earlier, later in pairwise(at_s)] == [10] * 7


async def test_audits_leave_most_of_the_budget_to_others() -> None:
    scene = stage(4, Limit(20 * COST, 60_000), audit_every=4.0)
    for symbol in scene.books:
        await scene.begin(symbol)
    began = len(scene.market.asked)
    await scene.maintain(60)

    assert len(scene.market.asked) - began == 4, "a fifth of twenty"


@pytest.mark.parametrize("reason", [ConnectorPaused("binance", "paused"), TimeoutError()])
async def test_an_audit_that_cannot_be_had_harms_nothing(reason: Exception) -> None:
    scene = stage(audit_every=5.0)
    await scene.begin(A)
    if isinstance(reason, TimeoutError):
        scene.market.bids = [("no price", "1.0")]
    else:
        scene.market.failure = reason
    await scene.maintain(7)

    assert scene.books[A].state == "synced"
    assert scene.maintainer.health_of(A).audited.audits == 0
    assert isinstance(scene.facts[-1], SnapshotFailed | RequestsSuspended)
    assert scene.numbered(A)._shadow is None, "and leaves nobody listening"


async def test_stopped_in_the_middle_of_an_audit_it_leaves_nobody_listening() -> None:
    numbered, unnumbered = stage(audit_every=5.0), stage(rules=UNPROVEN, audit_every=5.0)
    await numbered.begin(A)
    sync = streamed(unnumbered)
    for scene in (numbered, unnumbered):
        scene.market.takes_s = 60.0
        await scene.maintain(7)

    assert len(unnumbered.market.asked) == 1
    assert numbered.numbered(A)._shadow is None
    assert sync._history is None


async def test_without_audits_nothing_is_asked() -> None:
    scene = stage(audit_every=0.0)
    await scene.begin(A)
    await scene.maintain(100)

    assert len(scene.market.asked) == 1


# How far a book is known.


async def test_a_book_is_refreshed_before_its_price_leaves_what_is_known() -> None:
    scene = stage()
    await scene.begin(A)
    sync, states = scene.numbered(A), set[str]()
    assert [str(each) for each in scene.maintainer.health_of(A)[1:]] == ["96.0", "105.0"]
    # The four best bids go, one a second; nobody tells of those below the fifth.
    scene.market.bids = ladder(96, -1)
    running = asyncio.create_task(scene.maintain(6))
    for number, price in enumerate(("100.0", "99.0", "98.0", "97.0"), start=11):
        sync.receive(delta(A, number, number, [(price, "0")]))
        scene.market.update_id = number
        await asyncio.sleep(0)
        states.add(sync.state)
    while not running.done():
        states.add(sync.state)
        await asyncio.sleep(0)

    assert states == {"synced"}
    assert (sync.resyncs, len(scene.market.asked)) == (0, 2)
    assert str(scene.maintainer.health_of(A).known_bid) == "92.0"
    assert sync.levels is not None
    assert sync.levels.texts(5)[0] == scene.market.bids[:5]
    assert [each.source for each in scene.recorded] == ["rest"], "a new baseline is recorded"


async def test_a_book_that_began_again_from_another_snapshot_is_soon_looked_at() -> None:
    scene = stage()
    await scene.begin(A)
    running = asyncio.create_task(scene.maintain(2.4))
    await asyncio.sleep(0)
    await scene.clock.advance(0.3)  # four per cent from the end: far for two seconds
    scene.market.bids = [(f"{99.9 - 0.1 * n:.1f}", "1.0") for n in range(5)]
    scene.market.update_id = 20
    scene.numbered(A).invalidate("lost")
    await scene.begin(A)
    scene.numbered(A).receive(
        delta(A, 21, 21, [(price, "0") for price, _ in scene.market.bids[:4]])
    )
    await scene.clock.advance(0.3)

    assert len(scene.market.asked) == 3, "the last one because its price is at the end"
    await running


async def test_a_book_is_known_no_further_than_the_exchange_ever_answers() -> None:
    scene = stage(rules=BookRules(fetched_levels=3), book_depth=9)
    await scene.begin(A)

    assert [str(each) for each in scene.maintainer.health_of(A)[1:]] == ["98.0", "103.0"]


async def test_a_price_beyond_what_is_known_makes_the_book_stale_within_seconds() -> None:
    scene = stage(book_every=1000.0)
    await scene.begin(A)
    scene.market.failure = ConnectorPaused("binance", "paused")
    gone = [(price, "0") for price, _ in scene.market.bids[:5]]
    scene.numbered(A).receive(delta(A, 11, 11, [*gone, ("90.0", "1.0")]))
    await scene.maintain(2)

    assert scene.books[A].state == "stale"
    assert "left all that the snapshot showed" in scene.books[A].reason


async def test_only_a_book_that_is_synced_is_recorded() -> None:
    scene = stage()
    await scene.begin(A)
    scene.numbered(A).receive(delta(A, 13, 13))
    await scene.maintainer.record_shown()

    assert scene.books[A].state == "stale", "11 and 12 were lost"
    assert scene.recorded == []


async def test_a_book_is_recorded_no_further_than_it_is_known() -> None:
    scene = stage(rules=BookRules(fetched_levels=3), book_depth=9)
    await scene.begin(A)
    scene.numbered(A).receive(delta(A, 11, 11, [("90.0", "1.0")]))
    await scene.maintainer.record_shown()

    [shown] = scene.recorded
    assert isinstance(shown, BookSnapshot)
    assert [str(price) for price, _ in shown.bids] == ["100.0", "99.0", "98.0"]


# Books without numbers.


def streamed(scene: Stage, symbol: Symbol = A) -> StreamedBook:
    sync = scene.books[symbol]
    assert isinstance(sync, StreamedBook)
    sync.begin(in_stream(symbol, scene.market.bids, scene.market.asks))
    return sync


async def test_what_no_audit_has_confirmed_is_not_recorded_where_losses_do_not_show() -> None:
    scene = stage(rules=UNPROVEN, book_every=10.0, audit_every=100.0, book_levels=2)
    streamed(scene)
    await scene.maintainer.record_shown()
    assert scene.recorded == []
    await scene.maintain(12)

    [shown] = scene.recorded
    assert isinstance(shown, BookSnapshot)
    assert (shown.source, shown.at_ns) == ("live", 7)
    assert [*map(str, shown.bids[0]), len(shown.bids)] == ["100.0", "1.0", 2]


async def test_one_difference_may_be_the_snapshots_own_and_the_second_is_believed() -> None:
    scene = stage(rules=UNPROVEN, book_every=10.0, audit_every=10.0)
    sync = streamed(scene)
    scene.market.bids[1] = ("99.0", "5.0")
    await scene.maintain(12)
    assert (sync.state, scene.maintainer.health_of(A).audited.drift) == ("synced", 1)
    assert scene.recorded == []
    await scene.maintain(12)

    assert (sync.state, sync.wants_snapshot, sync.resyncs) == ("stale", True, 1)
    assert sync.reason == "audit: 1 levels differ from the exchange's"
    assert scene.facts == [BookDrifted(exchange="binance", symbol=A.slug, levels=1)] * 2


async def test_only_the_book_that_differs_is_begun_again() -> None:
    scene = stage(2, rules=UNPROVEN, book_every=4.0, audit_every=4.0)
    right, wrong = streamed(scene, A), streamed(scene, B)
    assert wrong.levels is not None
    wrong.receive(delta(B, 1, 1, [("95.0", "3.0")]))
    wrong.receive(delta(B, 1, 1, [("98.0", "3.0")]))
    scene.market.bids[5] = ("95.0", "1.0")
    await scene.maintain(11)

    assert (right.state, wrong.state) == ("synced", "stale")


async def test_the_state_that_was_confirmed_is_recorded_and_not_a_later_one() -> None:
    scene = stage(rules=UNPROVEN, book_every=10.0, audit_every=100.0, book_levels=2)
    sync = streamed(scene)
    running = asyncio.create_task(scene.maintain(13))
    await scene.clock.advance(0)
    while not scene.market.asked:
        await scene.clock.advance(0.1)
    await scene.clock.advance(0.5)
    sync.receive(delta(A, 99, 99, [("100.0", "8.0")]))
    await running

    [shown] = scene.recorded
    assert isinstance(shown, BookSnapshot)
    assert (shown.at_ns, str(shown.bids[0][1])) == (7, "1.0")


# While nothing can be asked.


async def test_a_book_that_needs_a_snapshot_has_it_once_the_pause_is_over() -> None:
    scene = stage()
    scene.market.failure = ConnectorPaused("binance", "paused")
    fetching = asyncio.create_task(scene.fetch(A))
    await scene.clock.advance(600)
    assert not fetching.done()
    assert len(scene.market.asked) == 1, "nobody asks in vain meanwhile"
    scene.market.failure = None
    await scene.maintainer.availability.check()
    await scene.clock.advance(2)
    assert fetching.done()
    assert await fetching is not None
    assert [type(fact) for fact in scene.facts] == [RequestsSuspended, RequestsResumed]


async def test_nothing_is_audited_while_nothing_can_be_asked() -> None:
    scene = stage(audit_every=5.0)
    await scene.begin(A)
    scene.market.failure = StoreUnreachable("sqlite:here", "another process keeps it locked")
    asked = len(scene.market.asked)
    await scene.maintain(60, step=1.0)
    assert len(scene.market.asked) == asked + 1
    scene.market.failure = None
    await scene.maintainer.availability.check()
    await scene.maintain(12)
    assert scene.maintainer.health_of(A).audited.audits > 0
