"""Random histories of clocks: an exchange's, a store's and those of three processes, set by hours.

``python -m tests.connectors.clock_histories FIRST COUNT`` runs so many seeds and names those that
fail. A history passes if no window that the exchange counts, by its own clock, sees more than its
limit, and no silence is longer than two windows, three where the exchange was set back. A clock
that is set during a silence begins it anew.
"""

import asyncio
import heapq
import itertools
import sys
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.gate import SharedGate
from penstock.storage.state import StateStore
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import SCHEMA
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit
from penstock.throttle.offset import Offset, narrowed, seen

START_MS = 1_700_000_000_000
SHORT, LONG = Limit(amount=8, period_ms=10_000), Limit(amount=30, period_ms=60_000)
STEPS_MS = [sign * s * 1000 for sign in (1, -1) for s in (1, 3, 15, 60, 600, 3600)]
PROCESSES, CALLERS, GUARD_MS = 3, 2, 250
LENGTH_S = 150
SLACK_MS = 3_000
"""Guard bands, the pause of a caller, and its second answer."""


class TrueClock(ManualClock):
    """Goes on as soon as nobody has anything left to do, which is most of the time at once."""

    async def advance(self, seconds: float) -> None:
        end_ns = self._now_ns + round(seconds * 1_000_000_000)
        await _idle()
        while self._sleepers and self._sleepers[0][0] <= end_ns:
            deadline_ns, _, woken = heapq.heappop(self._sleepers)
            self._now_ns = max(self._now_ns, deadline_ns)
            if not woken.done():
                woken.set_result(None)
                await _idle()
        self._now_ns = end_ns


async def _idle() -> None:
    # A fixed number of turns that is always enough takes twice as long for thousands of histories.
    loop: Any = asyncio.get_running_loop()
    is_busy = True
    while is_busy:
        await asyncio.sleep(0)
        is_busy = bool(loop._ready)


class AheadClock:
    """A clock that differs from the true one by what it was set to."""

    def __init__(self, true: ManualClock, ahead_ms: int = 0) -> None:
        self.true, self.ahead_ms = true, ahead_ms

    def now_ns(self) -> int:
        return self.true.now_ns() + self.ahead_ms * 1_000_000

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return self.true.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        await self.true.sleep(seconds)


@dataclass
class Exchange:
    """It counts by its clock, and begins anew with every window and whenever the clock is set.

    One that goes on counting in an earlier window after its clock was set back can be passed by
    whoever has not had an answer since: nobody can know.
    """

    clock: AheadClock
    limits: tuple[Limit, ...]
    step_ms: int
    """How fine its answers tell the time."""
    wrong_by_ms: int = 0
    """The next answer shows a time that is off by so much."""
    counts: dict[Limit, tuple[int, int]] = field(default_factory=dict)
    most: dict[Limit, int] = field(default_factory=dict)
    arrivals_ms: list[int] = field(default_factory=list)

    def receive(self) -> tuple[int, dict[Limit, int]]:
        """One request arrives: the date its answer shows, and what was used."""
        now_ms = self.clock.now_ms()
        self.arrivals_ms.append(self.clock.true.now_ms())
        for limit in self.limits:
            number, used = self.counts.get(limit, (-1, 0))
            present = now_ms // limit.period_ms
            used = used + 1 if number == present else 1
            self.counts[limit] = (present, used)
            self.most[limit] = max(self.most.get(limit, 0), used)
        shown_ms, self.wrong_by_ms = now_ms + self.wrong_by_ms, 0
        shown_ms -= shown_ms % self.step_ms
        return shown_ms, {limit: self.counts[limit][1] for limit in self.limits}


class Process:
    """A gate, what a gateway knows of the exchange's clock, and callers that never stop asking."""

    def __init__(self, store: StateStore, exchange: Exchange, random: Random, ahead_ms: int):
        self.clock = AheadClock(exchange.clock.true, ahead_ms)
        self.facts: list[Fact] = []
        self.gate = SharedGate(
            store, "binance", exchange.limits, self.clock, guard_ms=GUARD_MS,
            acquire_timeout_ms=36_000_000, listener=self.facts.append,
        )  # fmt: skip
        self._exchange, self._random = exchange, random
        self._offset: Offset | None = None
        self._tasks = [asyncio.create_task(self._call()) for _ in range(CALLERS)]

    async def _call(self) -> None:
        pause_s = self._random.choice([0.0, 0.1, 0.5])
        while True:
            grant = await self.gate.acquire(1)
            if not grant.good():
                grant.refund()
                continue
            sent_ms = self.clock.now_ms()
            await self.clock.sleep(self._random.choice([0.005, 0.05, 0.15]))
            shown_ms, used = self._exchange.receive()
            await self.clock.sleep(0.02)
            grant.answered()
            new = seen(shown_ms, self._exchange.step_ms, sent_ms, self.clock.now_ms() + 1)
            self._offset = narrowed(self._offset, new)
            self.gate.align(self._offset.middle_ms, self._offset.error_ms)
            for limit, count in used.items():
                self.gate.observe("", count, limit.period_ms, sent_ms)
            await self.clock.sleep(pause_s)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.gate.aclose()
        for end in ended:
            if not isinstance(end, asyncio.CancelledError):
                raise AssertionError(f"a caller failed: {end!r}")


@dataclass
class Outcome:
    """What became of a history."""

    seed: int
    events: list[str]
    over: list[str]
    silence_ms: int
    allowed_ms: int

    @property
    def failed(self) -> bool:
        return bool(self.over) or self.silence_ms > self.allowed_ms


async def run(seed: int) -> Outcome:
    """One history."""
    random = Random(seed)
    true = TrueClock(START_MS + random.randrange(60_000))
    limits = random.choice([(SHORT,), (SHORT, LONG)])
    ahead_ms, step_ms = random.choice([0, 700, -2_000]), random.choice([1, 1_000])
    exchange = Exchange(AheadClock(true, ahead_ms), limits, step_ms)
    store_clock = AheadClock(true, random.choice([0, 400, 86_400_000]))
    backend = MemoryBackend(store_clock)
    await backend.prepare(SCHEMA)
    store = StateStore(backend, 10.0)
    await ConnectorManager(store).ensure_connector("binance")
    processes = [Process(store, exchange, random, random.randrange(500)) for _ in range(PROCESSES)]
    for process in processes:
        process.gate.adopt(limits)
    told, set_ms = [], []
    await true.advance(20 + random.random() * 20)
    for _ in range(random.randint(1, 3)):
        what, by_ms = (
            random.choice(["exchange", "store", "wall", "answer"]),
            random.choice(STEPS_MS),
        )
        if what in ("exchange", "answer") and abs(by_ms) <= step_ms:
            by_ms *= 2  # Dates of whole seconds do not show that they are wrong by one.
        told.append(f"{what} {by_ms / 1000:+g} s after {(true.now_ms() - START_MS) / 1000:g} s")
        set_ms.append(true.now_ms())
        if what == "exchange":
            exchange.clock.ahead_ms += by_ms
            exchange.counts.clear()
        elif what == "store":
            store_clock.ahead_ms += by_ms
        elif what == "answer":
            exchange.wrong_by_ms = by_ms
        else:
            # A process sees its wall clock when it starts.
            number = random.randrange(PROCESSES)
            await processes[number].end()
            processes[number] = Process(store, exchange, random, by_ms)
        await true.advance(5 + random.random() * 40)
    await true.advance(LENGTH_S - (true.now_ms() - START_MS) / 1000 % LENGTH_S + 60)
    for process in processes:
        await process.end()
    # Each that is set takes its time: a silence is counted anew from there.
    at_ms = sorted([*exchange.arrivals_ms, *set_ms, true.now_ms()])
    silence_ms = max(b - a for a, b in itertools.pairwise(at_ms))
    over = [
        f"{most} of {limit.amount} in {limit.period_ms} ms"
        for limit, most in exchange.most.items()
        if most > limit.amount
    ]
    # An exchange that is set back comes to a window of the same number again. Nobody can tell
    # whether it is the same, so it counts as used.
    is_set_back = any(event.startswith("exchange -") for event in told)
    allowed_ms = (3 if is_set_back else 2) * max(x.period_ms for x in limits) + SLACK_MS
    return Outcome(seed, told, over, silence_ms, allowed_ms)


def main(first: int, count: int) -> int:
    """Run so many seeds, and tell which failed."""
    failed = 0
    for seed in range(first, first + count):
        outcome = asyncio.run(run(seed))
        if outcome.failed:
            failed += 1
            print(outcome, flush=True)
    print(f"{count} histories, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
