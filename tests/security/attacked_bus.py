"""A bus that is attacked while it is in use, and what it is like then and afterwards."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.publish.conftest import TOPIC, Shelf, Town, heard, joined, messages, numbers
from tests.waiting import PATIENCE_S

from penstock.publish.asking import ask_bus
from penstock.publish.subscriber import Delivery, Subscriber
from penstock.publish.zeromq import ZeroMqPublisher

ATTACK = Path(__file__).with_name("bus_attack.py")
PAGE_BYTES = 4096


class Outcome(NamedTuple):
    """How a bus came through."""

    quiet_bytes: int
    """Resident memory in use, before …"""
    most_bytes: int
    """… and at most during the attack."""
    sent: int
    after: list[int]
    """Numbers that a subscriber from before the attack got after it …"""
    fresh: list[int]
    """… and one that joined then."""
    ended_s: float
    """How long it took to end, attacked once more."""
    code: int


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Traffic:
    """A publisher that goes on publishing, and a subscriber with the log."""

    def __init__(self, publisher: ZeroMqPublisher, subscriber: Subscriber, shelf: Shelf) -> None:
        self.publisher, self.subscriber, self.shelf = publisher, subscriber, shelf
        self.sent = 0
        self.got: list[int] = []

    async def send(self) -> None:
        while True:
            self.sent += 1
            self.shelf._numbers.append(self.sent)
            self.publisher.publish(messages(self.sent, self.sent))
            await asyncio.sleep(0.01)

    async def take(self) -> None:
        async for each in self.subscriber:
            if isinstance(each, Delivery) and each.topic == TOPIC:
                self.got.append(each.number)


@asynccontextmanager
async def traffic(town: Town) -> AsyncIterator[Traffic]:
    shelf = Shelf([])
    async with (
        town.publisher() as publisher,
        town.subscriber(TOPIC, fill=shelf) as subscriber,
    ):
        await heard(publisher)
        await joined(subscriber)
        found = Traffic(publisher, subscriber, shelf)
        tasks = [asyncio.create_task(found.send()), asyncio.create_task(found.take())]
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def attack(town: Town, pid: int, seconds: float, seed: int, *, flood: bool) -> int:
    """Attack for so long; the most memory the broker took."""
    attacking = _attacking(town, seconds, seed, flood=flood)
    most = 0
    while attacking.poll() is None:
        most = max(most, resident_bytes(pid))
        await asyncio.sleep(0.05)
    assert attacking.returncode == 0, attacking.returncode
    return most


def _attacking(town: Town, seconds: float, seed: int, *, flood: bool) -> "subprocess.Popen[bytes]":
    where = town.endpoints()
    words = [where.publish, where.subscribe, str(seconds), str(seed)]
    words += ["flood"] if flood else []
    return subprocess.Popen([sys.executable, str(ATTACK), *words], stdout=subprocess.DEVNULL)


async def attacked(folder: Path, seconds: float, seed: int, *, flood: bool = False) -> Outcome:
    """Use a bus, attack it for so long, with a flood of subscriptions or without, and use it."""
    town = Town(folder)
    with _running_bus(folder) as bus:
        async with asyncio.timeout(seconds + PATIENCE_S), traffic(town) as used:
            while len(used.got) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            quiet = resident_bytes(bus.pid)
            most = await attack(town, bus.pid, seconds, seed, flood=flood)
            # The slot says twice in a row where it is; then all wrong numbers are forgotten.
            said = used.sent + 250
            while used.sent < said or used.got[-1] != used.sent:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            first, already = used.sent, len(used.got)
            facts = await ask_bus(town.endpoints(), town.clock, PATIENCE_S)
            assert "a" in [slot.slot for slot in facts.slots]
            async with town.subscriber(TOPIC, fill=used.shelf) as late:
                fresh = numbers([await anext(late) for _ in range(20)])
            while used.sent < first + 50 or used.got[-1] < first + 50:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            after, sent = used.got[already : already + 50], used.sent
        files = _open_files(bus.pid)
        attacking = _attacking(town, 600.0, seed + 1, flood=flood)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while _open_files(bus.pid) < files + 50:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            bus.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(bus.wait, PATIENCE_S)
            ended_s = time.monotonic() - began
        finally:
            attacking.kill()
            attacking.wait()
        return Outcome(quiet, most, sent, after, fresh, ended_s, code)


@contextmanager
def _running_bus(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    words = ["-m", "penstock", "bus", "--json", "--data-dir", str(folder)]
    with subprocess.Popen(
        [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as bus:
        try:
            assert bus.stdout is not None
            assert bus.stdout.readline()
            yield bus
        finally:
            bus.kill()


def report(outcome: Outcome) -> str:
    quiet, most = outcome.quiet_bytes / 1e6, outcome.most_bytes / 1e6
    return (
        f"{quiet:.0f} MB before, {most:.0f} MB at most; ended with {outcome.code} after"
        f" {outcome.ended_s:.2f} s; {outcome.sent} sent"
    )


def check(outcome: Outcome, most_bytes: int | None = None) -> None:
    """It took little memory, delivered right afterwards, and ended when it was told to."""
    assert outcome.most_bytes <= (most_bytes or 2 * outcome.quiet_bytes), report(outcome)
    assert outcome.after == [*range(outcome.after[0], outcome.after[0] + 50)]
    assert outcome.fresh == [*range(outcome.fresh[0], outcome.fresh[0] + 20)]
    assert outcome.code in (0, 1), report(outcome)
