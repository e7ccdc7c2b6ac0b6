"""Admission: few at a time, the most urgent first, one of a symbol, and nobody is forgotten."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.collect.snapshot_queue import SnapshotQueue, Urgency
from penstock.market.symbol import Symbol

SYMBOLS = [Symbol(base, "USDT") for base in "ABCDEF"]


@dataclass
class Queue:
    """Visitors of an admission, each of which stays until it is sent away."""

    queue: SnapshotQueue
    inside: dict[int, Symbol] = field(default_factory=dict)
    waiting: dict[int, tuple[Urgency, Symbol]] = field(default_factory=dict)
    entered: list[int] = field(default_factory=list)
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    leave: dict[int, asyncio.Event] = field(default_factory=dict)

    async def come(self, symbol: Symbol, urgency: Urgency) -> int:
        number = len(self.tasks)
        self.waiting[number] = urgency, symbol
        self.leave[number] = asyncio.Event()
        self.tasks[number] = asyncio.create_task(self._visit(number, symbol, urgency))
        await self.settle()
        return number

    async def _visit(self, number: int, symbol: Symbol, urgency: Urgency) -> None:
        try:
            async with self.queue.turn(symbol, urgency):
                self._check_turn(number)
                self.inside[number] = symbol
                self.entered.append(number)
                await self.leave[number].wait()
        finally:
            self.waiting.pop(number, None)
            self.inside.pop(number, None)

    def _check_turn(self, number: int) -> None:
        urgency, symbol = self.waiting.pop(number)
        assert symbol not in self.inside.values(), "one of a symbol at most"
        for other, (its_urgency, its_symbol) in self.waiting.items():
            could = its_symbol not in self.inside.values() and its_symbol != symbol
            assert not could or (urgency, number) < (its_urgency, other), "out of turn"

    async def send_away(self, number: int) -> None:
        self.leave[number].set()
        await self.settle()

    async def cancel(self, number: int) -> None:
        self.tasks[number].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def queue(at_once: int) -> Queue:
    return Queue(SnapshotQueue(at_once))


async def test_a_lost_book_goes_before_all_that_are_only_beginning() -> None:
    line = queue(1)
    first = await line.come(SYMBOLS[0], Urgency.COLD)
    audit = await line.come(SYMBOLS[1], Urgency.AUDIT)
    cold = [await line.come(symbol, Urgency.COLD) for symbol in SYMBOLS[2:4]]
    lost = await line.come(SYMBOLS[4], Urgency.LOST)

    for number in (first, lost, *cold, audit):
        await line.send_away(number)

    assert line.entered == [first, lost, *cold, audit]


async def test_a_symbol_whose_snapshot_is_under_way_lets_others_pass() -> None:
    line = queue(2)
    audit = await line.come(SYMBOLS[0], Urgency.AUDIT)
    lost = await line.come(SYMBOLS[0], Urgency.LOST)
    cold = await line.come(SYMBOLS[1], Urgency.COLD)

    assert line.entered == [audit, cold]
    await line.send_away(audit)
    assert line.entered == [audit, cold, lost]
    await line.send_away(cold)
    await line.send_away(lost)


async def test_who_is_cancelled_leaves_its_place_to_the_next() -> None:
    line = queue(1)
    first = await line.come(SYMBOLS[0], Urgency.COLD)
    second = await line.come(SYMBOLS[1], Urgency.COLD)
    third = await line.come(SYMBOLS[2], Urgency.COLD)

    # Called and cancelled in the same moment: it never gets to know that it was its turn.
    line.leave[first].set()
    await asyncio.sleep(0)
    assert (line.inside, line.entered) == ({}, [first])
    await line.cancel(second)

    assert line.entered == [first, third]
    await line.send_away(third)


steps = st.lists(
    st.tuples(
        st.sampled_from(["come", "come", "leave", "cancel"]),
        st.integers(0, len(SYMBOLS) - 1),
        st.sampled_from(list(Urgency)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 4))
def test_in_any_order_the_most_urgent_goes_first_and_everybody_goes(
    events: list[tuple[str, int, Urgency]], at_once: int
) -> None:
    async def live() -> None:
        line = queue(at_once)
        for what, number, urgency in events:
            if what == "come":
                await line.come(SYMBOLS[number], urgency)
            elif what == "leave" and line.inside:
                await line.send_away(list(line.inside)[number % len(line.inside)])
            elif what == "cancel" and line.tasks:
                await line.cancel(number % len(line.tasks))
            assert len(line.inside) <= at_once
            free = at_once - len(line.inside)
            held = set(line.inside.values())
            kept = [symbol for _, symbol in line.waiting.values() if symbol not in held]
            assert not (free and kept), "a place is free, and somebody could have it"
        while line.inside:
            await line.send_away(next(iter(line.inside)))
        assert not line.waiting, "nobody is forgotten"
        await asyncio.gather(*line.tasks.values(), return_exceptions=True)
        failed = [each for each in line.tasks.values() if not each.cancelled()]
        assert [each.exception() for each in failed if each.exception()] == []

    asyncio.run(live())
