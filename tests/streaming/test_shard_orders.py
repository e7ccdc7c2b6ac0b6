"""A shard in any order of events: nothing comes twice, nothing that came is lost."""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.books.commands import CancelFetch, FetchSnapshot
from penstock.market.events import BookDelta, BookSnapshot, Event, Trade
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import Close, Open, Send, Subscription, WakeAt
from penstock.streaming.shard import SHARD, Shard
from penstock.streaming.shard_connection import Plan

from .toys import SECOND_NS, A, NumberedDialect, StreamedDialect, frame, rest_book, truth

RECONNECT_S, AGAIN_S = 1.0, 10.0
WANTED = [Subscription("trades", (A,)), Subscription("book_deltas", (A,))]


@dataclass
class World:
    """An exchange with sockets of its own, and the shard that is connected to it."""

    dialect: type[NumberedDialect]
    redundancy: int
    shard: Shard = field(init=False)
    now_ns: int = 0
    trades: int = 0
    updates: int = 0
    sockets: dict[int, deque[tuple[int, bytes]]] = field(default_factory=dict)
    """What every open connection has still to bring, and since when."""
    connecting: set[int] = field(default_factory=set)
    closing: set[int] = field(default_factory=set)
    acks: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    fetching: list[int] = field(default_factory=list)
    received: set[int] = field(default_factory=set)
    """Trades that came on some connection."""
    told: list[Event] = field(default_factory=list)
    closed_ns: dict[int, int] = field(default_factory=dict)
    given_up_ns: int = -(10**12)
    cut: bool = False

    def __post_init__(self) -> None:
        plan = Plan(
            redundancy=self.redundancy,
            rotate_after_s=60.0,
            overlap_s=2.0,
            takeover_timeout_s=20.0,
            reconnect=Backoff(first_s=RECONNECT_S, longest_s=8.0, jitter=0.0),
            rotate_again=Backoff(first_s=AGAIN_S, longest_s=40.0, jitter=0.0),
        )
        self.shard = Shard("toy", self.dialect, WANTED, lambda: 0.0, plan)
        self.shard.start(0)
        self.obey()

    def one_of(
        self, sockets: set[int] | dict[int, deque[tuple[int, bytes]]], which: int
    ) -> int | None:
        there = sorted(sockets)
        return there[which % len(there)] if there else None

    def emit(self, amount: int) -> None:
        for _ in range(amount):
            self.trades += 1
            self.updates += 1
            for queue in self.sockets.values():
                queue.append((self.now_ns, frame("trade", "a_usdt", self.trades)))
                queue.append((self.now_ns, frame("delta", "a_usdt", self.updates)))

    def deliver(self, which: int, amount: int = 10**6) -> None:
        number = self.one_of(self.sockets, which)
        if number is not None:
            queue = self.sockets[number]
            frames = [queue.popleft()[1] for _ in range(min(amount, len(queue)))]
            for each in frames:
                if b"trade" in each:
                    self.received.add(int(each.rpartition(b",")[2][:-1]))
            self.shard.received_many(number, frames, [self.now_ns] * len(frames))

    def deliver_late(self, which: int) -> None:
        """No connection lags behind by more than a second, but they do lag."""
        number = self.one_of(self.sockets, which)
        if number is not None:
            late = sum(self.now_ns - at_ns >= SECOND_NS for at_ns, _ in self.sockets[number])
            self.deliver(which, late)

    def open(self, which: int) -> None:
        number = self.one_of(self.connecting, which)
        if number is not None:
            self.connecting.discard(number)
            self.sockets[number] = deque()
            if self.dialect is StreamedDialect:
                whole = frame("whole", "a_usdt", self.updates)
                self.sockets[number].append((self.now_ns, whole))
            self.shard.opened(number, self.now_ns)

    def close(self, number: int | None, *, planned: bool) -> None:
        if number is not None:
            was_open = self.sockets.pop(number, None) is not None
            self.connecting.discard(number)
            self.closing.discard(number)
            self.acks.pop(number, None)
            self.cut = self.cut or (was_open and not planned)
            before = self.shard.stats.given_up.total()
            self.closed_ns[number] = self.now_ns
            self.shard.closed(number, "cut", self.now_ns)
            if self.shard.stats.given_up.total() > before:
                self.given_up_ns = self.now_ns

    def refuse(self, which: int) -> None:
        self.close(self.one_of(self.connecting, which), planned=False)

    def lose(self, which: int) -> None:
        self.close(self.one_of(self.sockets, which), planned=False)

    def part(self, which: int) -> None:
        self.close(self.one_of(self.closing, which), planned=True)

    def ack(self, which: int) -> None:
        number = self.one_of(self.sockets, which)
        if number is not None:
            for request in self.acks.pop(number, []):
                self.shard.received_many(number, [frame("ack", request)], [self.now_ns])

    def settle(self, which: int) -> None:
        """The exchange lets somebody in, and grants everything."""
        self.open(which)
        self.obey()
        for index in range(len(self.sockets)):
            self.ack(index)

    def say(self, which: int, text: bytes) -> None:
        number = self.one_of(self.sockets, which)
        if number is not None:
            self.shard.received_many(number, [text], [self.now_ns])

    def fetched(self, age: int) -> None:
        if self.fetching:
            number = self.fetching.pop(0)
            book = rest_book(A, max(0, self.updates - age))
            self.shard.snapshot_arrived(number, book, self.now_ns)

    def fetch_failed(self, _: int) -> None:
        if self.fetching:
            self.shard.snapshot_failed(self.fetching.pop(0), A, self.now_ns)

    def wake(self, tenths: int) -> None:
        for _ in range(tenths):
            before = self.shard.stats.given_up.total()
            for index in range(len(self.sockets)):
                self.deliver_late(index)
            self.now_ns += SECOND_NS // 10
            for number in (SHARD, *self.shard.members):
                self.shard.woken(number, self.now_ns)
                self.obey()
            if self.shard.stats.given_up.total() > before:
                self.given_up_ns = self.now_ns

    def obey(self) -> None:
        for number, command in self.shard.take_commands():
            match command:
                case Open():
                    assert number not in self.sockets
                    assert number not in self.connecting
                    if number in self.closed_ns:
                        assert self.now_ns - self.closed_ns[number] >= RECONNECT_S * SECOND_NS
                    elif number > self.redundancy:
                        assert self.now_ns - self.given_up_ns >= AGAIN_S * SECOND_NS
                    self.connecting.add(number)
                case Close():
                    if number in self.sockets or number in self.connecting:
                        self.closing.add(number)
                case Send(text):
                    self.acks[number].append(int(text.partition(":")[0]))
                case FetchSnapshot():
                    self.fetching.append(number)
                case CancelFetch():
                    self.fetching = [each for each in self.fetching if each != number]
                case WakeAt(at_ns):
                    assert at_ns > self.now_ns - SECOND_NS, "woken for what is long past"
        self.told += self.shard.take_events()

    def judge(self) -> None:
        ids = [each.id for each in self.told if isinstance(each, Trade)]
        assert len(ids) == len(set(ids)), "a trade was delivered twice"
        assert self.received <= set(ids), "a trade that came was not delivered"
        live = [member for member in self.shard.members.values() if member.live]
        assert self.shard.primary.live or not live, "a connection is live and none is primary"
        for member in self.shard.members.values():
            book = member.connection.books[A]
            if book.state == "synced" and book.levels is not None:
                number = book.update_id or book.at_ns
                held = {str(p): str(q) for p, q in book.levels.texts()[0]}
                assert held == truth(number or 0), "a book that is shown is wrong"
            fetches = self.fetching.count(member.number)
            if member.live and self.dialect is NumberedDialect and book.wants_snapshot:
                assert fetches or A in member.joining, "a book waits and nothing is fetched"
            assert fetches <= 1, "a snapshot is fetched twice"
            assert member.live or not fetches, "a snapshot is fetched for nobody"

    def judge_numbers(self) -> None:
        updates = [each.final_update_id for each in self.told if isinstance(each, BookDelta)]
        assert len(updates) == len(set(updates)), "an update was delivered twice"


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["open", "ack", "settle", "deliver"]), st.integers(0, 3)),
        st.tuples(st.just("settle"), st.integers(0, 3)),
        st.tuples(st.just("emit"), st.integers(1, 3)),
        st.tuples(st.just("wake"), st.sampled_from([1, 5, 30, 120])),
        st.tuples(st.sampled_from(["rotate", "notice", "part"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["lose", "refuse", "rubbish"]), st.integers(0, 3)),
        st.tuples(st.just("fetched"), st.integers(0, 3)),
        st.tuples(st.just("fetch_failed"), st.just(0)),
    ),
    max_size=60,
)


def act(world: World, what: str, amount: int) -> None:
    moves: dict[str, Callable[[int], None]] = {
        "open": world.open,
        "ack": world.ack,
        "settle": world.settle,
        "emit": world.emit,
        "deliver": lambda which: world.deliver(which, 2),
        "wake": world.wake,
        "rotate": lambda _: world.shard.rotate("wanted", world.now_ns),
        "notice": lambda which: world.say(which, frame("closing")),
        "part": world.part,
        "lose": world.lose,
        "refuse": world.refuse,
        "rubbish": lambda which: world.say(which, b"{"),
        "fetched": world.fetched,
        "fetch_failed": world.fetch_failed,
    }
    moves[what](amount)
    world.obey()


@given(
    steps,
    st.sampled_from([NumberedDialect, StreamedDialect]),
    st.integers(1, 3),
)
def test_in_any_order_nothing_comes_twice_and_all_that_came_is_delivered(
    events: list[tuple[str, int]], dialect: type[NumberedDialect], redundancy: int
) -> None:
    world = World(dialect, redundancy)
    for what, amount in events:
        act(world, what, amount)
        world.judge()
        if dialect is NumberedDialect:
            world.judge_numbers()


smooth = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["open", "ack", "settle", "deliver"]), st.integers(0, 3)),
        st.tuples(st.just("settle"), st.integers(0, 3)),
        st.tuples(st.just("emit"), st.integers(1, 3)),
        st.tuples(st.just("wake"), st.sampled_from([1, 5, 30])),
        st.tuples(st.sampled_from(["rotate", "notice", "part"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["fetched", "refuse"]), st.integers(0, 3)),
    ),
    min_size=20,
    max_size=80,
)


@given(smooth, st.sampled_from([NumberedDialect, StreamedDialect]))
def test_while_no_connection_is_cut_nothing_is_missing(
    events: list[tuple[str, int]], dialect: type[NumberedDialect]
) -> None:
    world = World(dialect, 1)
    world.open(0)
    world.obey()
    world.ack(0)
    for what, amount in events:
        act(world, what, amount)
    for index in range(len(world.sockets)):
        world.deliver(index)
    world.obey()

    # An exchange that does not answer is left, and what it sends meanwhile is lost.
    if not world.shard.stats.reconnects:
        ids = {each.id for each in world.told if isinstance(each, Trade)}
        assert ids == set(range(1, world.trades + 1))
    if dialect is StreamedDialect:
        replay(world.told)


def replay(told: list[Event]) -> None:
    """Whoever reads along from the first snapshot has the right book after every event."""
    held: dict[str, str] = {}
    for event in told:
        if isinstance(event, BookSnapshot):
            held = {str(price): str(quantity) for price, quantity in event.bids}
        elif isinstance(event, BookDelta):
            held |= {str(price): str(quantity) for price, quantity in event.bids}
        # A baseline that nothing proves bears no time; what follows it shows whether it was right.
        if isinstance(event, BookSnapshot | BookDelta) and event.at_ns is not None:
            assert held == truth(event.at_ns)
