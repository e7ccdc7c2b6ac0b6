"""Records of a log and a lake by receive time: the same as those of the log before the seal."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import events

from penstock.dataset.cold import Cold
from penstock.dataset.received import LogAndLake
from penstock.keep.deletions import plan_deletions
from penstock.market import channels
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.playback import merge
from penstock.playback.digest import digest_of
from penstock.playback.merge import merged
from penstock.storage.log import EventLog, LogWriter, Received, open_log
from penstock.storage.log.keys import Stream

from .stored import seal

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND
BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
SLOTS = ("collect-a", "collect-b", "work-0")
FOREVER = 1 << 62
FOREIGN = 7
"""The id of the log of another machine; that of a log in memory is 0."""

# Few instants over some hours, so that many records are received at the same time, or copied.
Times = st.builds(
    lambda hour, second, nanosecond: NOON + (hour * 3600 + second) * SECOND + nanosecond,
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 1),
)
Kinds = st.one_of(
    st.builds(
        lambda number, symbol: (
            lambda at_ns: events.trade(
                number, symbol, received_at_ns=at_ns, at_ns=NOON + number * SECOND
            )
        ),
        st.integers(0, 12),
        st.sampled_from((BTC, ETH)),
    ),
    st.builds(
        lambda minute, close: (
            lambda at_ns: events.candle(minute * 60_000, received_at_ns=at_ns, close_text=close)
        ),
        st.integers(0, 2),
        st.sampled_from("12"),
    ),
    st.just(events.ticker),
)
Made = st.lists(
    st.tuples(st.sampled_from(SLOTS), st.lists(st.tuples(Times, Kinds), min_size=1, max_size=4)),
    min_size=1,
    max_size=5,
)


class World:
    """A log in memory with its writers, and a lake."""

    def __init__(self, lake: Path) -> None:
        self.log: EventLog = open_log("memory:")
        self.writers: dict[str, LogWriter] = {slot: self.log.writer(slot) for slot in SLOTS}
        self.lake = lake
        self._sealed: dict[tuple[str, Stream], int] = {}

    def seal(self, slot: str, last: int) -> None:
        """Seal what is not sealed of each stream of a slot, up to a number."""
        with closing(self.log.reader()) as reader:
            for stream in reader.streams():
                first = self._sealed.get((slot, stream), 0) + 1
                seal(self.lake, [*reader.numbers(stream, slot, first, last)])
                self._sealed[slot, stream] = last

    def trim(self, slot: str, last: int) -> None:
        """Delete what the owner of a slot may delete if records up to a number are sealed."""
        with closing(self.log.reader()) as reader:
            for stats in reader.stats():
                if stats.slot != slot:
                    continue
                found = [each for each in stats.streams if not _stays(each.stream)]
                verified = {each.stream: min(last, each.last_number) for each in found}
                planned = plan_deletions(reader, slot, found, verified, FOREVER)
                for stream, deletion in planned.items():
                    key = bytes.fromhex(deletion.key)
                    self.writers[slot].delete_below(stream, key, seen=deletion.seen)

    def received(
        self, since_ns: int | None = None, until_ns: int | None = None, *, log: bool = True
    ) -> list[Received]:
        source = LogAndLake(self.log if log else None, Cold(str(self.lake)))
        with closing(source):
            found = merged(source, source.streams(), since_ns, until_ns)
            return [each for batch in found for each in batch]

    def hot(self, since_ns: int | None = None) -> list[Received]:
        with closing(self.log.reader()) as reader:
            found = merged(reader, reader.streams(), since_ns)
            return [each for batch in found for each in batch]


def _stays(stream: Stream) -> bool:
    row = channels.find(stream.channel)
    assert row is not None
    return row.stays_in_log


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "lake")


def _apart(slot: str, at_ns: int, make: Callable[[int], Event]) -> Event:
    # Records without an id that two slots receive in the same nanosecond have one key.
    made = make(at_ns)
    return (
        make(at_ns + 10 * SLOTS.index(slot))
        if channels.BY_EVENT[type(made)].id_of(made) is None
        else made
    )


@settings(max_examples=6, deadline=None)
@given(
    made=Made,
    sealed=st.tuples(*(st.integers(0, 9) for _ in SLOTS)),
    trimmed=st.tuples(*(st.integers(0, 9) for _ in SLOTS)),
    since=st.one_of(st.none(), Times),
    most=st.sampled_from((3, 50_000)),
)
def test_sealing_and_trimming_change_nothing(
    made: list[tuple[str, list[tuple[int, Callable[[int], Event]]]]],
    sealed: tuple[int, ...],
    trimmed: tuple[int, ...],
    since: int | None,
    most: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_MOST", most)
        world = World(Path(folder) / "lake")
        for slot, batch in made:
            world.writers[slot].append([_apart(slot, *each) for each in batch])
        before = world.hot(since)
        for slot, last in zip(SLOTS, sealed, strict=True):
            world.seal(slot, last)
        assert world.received(since) == before, "what both hold is one record"
        for slot, last, other in zip(SLOTS, sealed, trimmed, strict=True):
            world.trim(slot, min(last, other))

        found = world.received(since)

        assert found == before
        assert digest_of(found) == digest_of(before)


def _trades(first: int, last: int, received_ns: int = NOON) -> list[Event]:
    return [
        events.trade(n, received_at_ns=received_ns + n * SECOND, at_ns=NOON + n * SECOND)
        for n in range(first, last + 1)
    ]


def test_a_log_that_is_trimmed_has_the_rest_in_the_lake(world: World) -> None:
    for slot, late_ns in (("collect-a", 0), ("collect-b", SECOND // 2)):
        world.writers[slot].append(_trades(1, 20, NOON + late_ns))
        world.writers[slot].append(_trades(21, 30, NOON + late_ns))
    before = world.hot()

    for slot in ("collect-a", "collect-b"):
        world.seal(slot, 20)
        world.trim(slot, 20)

    assert [each.number for each in world.hot()] == [*range(21, 31)]
    assert world.received() == before
    assert {each.slot for each in before} == {"collect-a"}, "it received each trade first"
    assert world.received(since_ns=NOON + 15 * SECOND, until_ns=NOON + 25 * SECOND) == before[14:24]


def test_a_copy_is_not_a_record_wherever_it_is(world: World) -> None:
    world.writers["collect-a"].append(_trades(1, 9))
    before = world.hot()
    world.seal("collect-a", 9)
    world.trim("collect-a", 9)
    # The slot does not know any more that it has recorded these; the other slot never did.
    world.writers["collect-a"].append(_trades(1, 4, NOON + 3600 * SECOND))
    world.writers["collect-b"].append(_trades(3, 6, NOON + 7200 * SECOND))

    assert len(world.hot()) > 1, "the log alone shows them"
    assert world.received() == before
    world.seal("collect-b", 9)
    assert world.received() == before


def test_records_of_another_log_are_replayed_too_and_copies_only_once(world: World) -> None:
    other = World(world.lake)
    other.writers["collect-a"].append(_trades(1, 10, NOON - SECOND // 2))
    with closing(other.log.reader()) as reader:
        [stream] = reader.streams()
        seal(world.lake, [*reader.numbers(stream, "collect-a", 1)], FOREIGN)
    world.writers["collect-a"].append(_trades(6, 20))

    found = world.received()

    assert found == [*other.hot(), *(each for each in world.hot() if each.number > 5)]
    assert world.received(log=False) == other.hot(), "the lake alone"
    world.seal("collect-a", 20)
    assert world.received(log=False) == world.received() == found


def test_what_is_sealed_and_trimmed_during_a_replay_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_MOST", 10)
    for first in range(1, 100, 10):
        world.writers["collect-a"].append(_trades(first, first + 9))
    world.seal("collect-a", 10)
    before = world.hot()
    found, number = list[Received](), 10
    with closing(LogAndLake(world.log, Cold(str(world.lake)))) as source:
        for batch in merged(source, source.streams()):
            found += batch
            number = min(number + 30, 100)
            world.seal("collect-a", number)
            world.trim("collect-a", number)

    assert found == before
    assert len(world.hot()) == 1
