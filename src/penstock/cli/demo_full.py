"""``penstock demo --full``: everything under the supervisor, and every process killed once."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from penstock.cli.demo_parts import (
    DemoPlan,
    RunningSimulator,
    judge,
    of_each,
    processes_of,
    simulators_of,
    until_filled,
)
from penstock.cli.painter import write
from penstock.cli.processes import running, while_running
from penstock.clock import Clock, SystemClock, wait_for
from penstock.collect.status import read_all
from penstock.config import environment_name
from penstock.coverage.writing import read_coverage
from penstock.errors import NoSupervisor, PenstockError
from penstock.market.channels import TRADES
from penstock.runtime.status import ChildStatus, read_processes
from penstock.runtime.stopping import stop_on_signals
from penstock.simulator.judge import Findings, total
from penstock.storage.log import open_log
from penstock.storage.state import open_store
from penstock.supervisor.control import send_to_supervisor

_START_S = 120.0
_STOP_S = 60.0
_REPORT_S = 60.0
_POLL_S = 0.5
_BACKUP_ATTEMPTS, _BACKUP_S = 20, 3.0
_KILLING = 0.7
"""The share of the demo in which processes are killed; in the rest they recover."""
_PRODUCERS = ("collect", "fetch", "tickers")
"""Stopped first, so that workers can fill the gaps up to the last record."""


async def run_full(plan: DemoPlan, exchanges: Sequence[str], port: int) -> dict[str, Any]:
    """Run the demo with its console on a port; return the findings, with those of each exchange.

    Raises:
        PenstockError: a simulator, the supervisor or a judge failed.
    """
    with TemporaryDirectory(prefix="penstock-demo-backups-") as backups:
        return await _run(plan, exchanges, backups, port)


async def _run(plan: DemoPlan, exchanges: Sequence[str], backups: str, port: int) -> dict[str, Any]:
    clock, stop = SystemClock(), asyncio.Event()
    stop_on_signals(stop)
    async with simulators_of(plan, exchanges) as started:
        environment = _environment(plan, started, backups, port)
        write(f"Starting the processes of {', '.join(exchanges)} under a supervisor …\n")
        write(f"Console: http://127.0.0.1:{port}/\n")
        async with running([*plan.base, "up"], environment, _STOP_S) as up:
            demo = _Supervised(plan, environment, stop, clock)
            needed = {"The supervisor": up, **processes_of(started)}
            done = await while_running(needed, demo.run())

        async def judge_one(name: str) -> Findings:
            words = [*plan.base, "judge", started[name].listening, "--json"]
            return await judge(words, environment)

        found = await of_each(exchanges, judge_one)
    return {**done, **_summary(found)}


def _environment(
    plan: DemoPlan, started: Mapping[str, RunningSimulator], backups: str, port: int
) -> dict[str, str]:
    addresses = {name: each.listening for name, each in started.items()}
    markets = {name: {"symbols": each.symbols} for name, each in started.items()}
    return {
        **plan.environment(addresses),
        environment_name("live.url"): f"sqlite:{plan.folder / 'live.db'}",
        environment_name("up.exchanges"): ",".join(started),
        environment_name("up.per_exchange"): msgspec.json.encode(markets).decode(),
        environment_name("api.port"): str(port),
        environment_name("backup.folder"): backups,
        environment_name("fetch.every"): "10",
        # Polled trades would begin before those of the collectors, and a gap lie between them.
        environment_name("fetch.what"): "book,info,tickers",
        environment_name("keep.seal_every"): "10",
    }


def _summary(found: Mapping[str, Findings]) -> dict[str, Any]:
    findings = total(found.values())
    return {
        "trades": findings.trades,
        "trades_missing": findings.trades_missing,
        "trades_duplicated": findings.trades_duplicated,
        "trades_wrong": findings.trades_wrong,
        "gaps_unexplained": findings.gaps_unlisted + findings.gaps_untrue + findings.gaps_open,
        "books_checked": findings.books_checked,
        "book_mismatches": findings.book_mismatches,
        "http_429": findings.http_429,
        "http_418": findings.http_418,
        "exchanges": found,
    }


def is_complete(findings: Mapping[str, Any]) -> bool:
    """Whether everything was recorded, and correctly, by all exchanges."""
    wrong = ("missing", "duplicated", "wrong", "unexplained", "mismatches", "429", "418")
    is_right = not any(
        value for name, value in findings.items() if name.rpartition("_")[2] in wrong
    )
    are_all_there = all(each.trades for each in findings["exchanges"].values())
    is_healthy = findings["backup_verified"] and findings["doctor"] == 0
    return is_right and are_all_there and is_healthy


class _Supervised:
    """The course of a demo, while its supervisor runs."""

    def __init__(
        self, plan: DemoPlan, environment: Mapping[str, str], stop: asyncio.Event, clock: Clock
    ) -> None:
        self._plan, self._environment, self._stop, self._clock = plan, environment, stop, clock
        self._random = Random(plan.settings.seed)

    async def run(self) -> dict[str, Any]:
        """Kill every process once, back up what is being recorded, stop what collects."""
        await self._until_running()
        began_ns = self._clock.monotonic_ns()
        write(f"Recording for {self._plan.seconds:g} s; every process is killed once …\n")
        killed = await self._kill_each()
        verified = await self._is_backed_up()
        await self._until_running()
        health = await self._health()
        left_s = self._plan.seconds - (self._clock.monotonic_ns() - began_ns) / 1e9
        await wait_for(self._stop, self._clock, max(0.0, left_s))
        await self._until_running()
        await self._until_reported()
        write(f"{killed} processes were killed. Stopping the collectors and filling gaps …\n")
        await send_to_supervisor(self._plan.folder, "stop", _PRODUCERS)
        await until_filled(self._plan, self._clock)
        return {"processes_killed": killed, "backup_verified": verified, "doctor": health}

    async def _until_reported(self) -> None:
        """Wait until the ledger has what was recorded, and so the gaps; but not for ever."""
        with closing(open_log(f"rocksdb:{self._plan.folder}").reader()) as log:
            recorded = {
                (slot.slot, each.stream): each.last_number
                for slot in log.stats()
                for each in slot.streams
                if slot.slot.startswith("collect-") and each.stream.channel == TRADES.name
            }
        store = await open_store(self._plan.state_url)
        try:
            for _ in range(int(_REPORT_S / _POLL_S)):
                found = await read_coverage(store, channel=TRADES.name)
                reported = {(each.slot, each.stream): each.number for each in found}
                if all(reported.get(each, 0) >= number for each, number in recorded.items()):
                    return
                await self._clock.sleep(_POLL_S)
        finally:
            await store.close()

    async def _is_backed_up(self) -> bool:
        """Make a backup, which is restored to a temporary folder and checked, and verify it."""
        for _ in range(_BACKUP_ATTEMPTS):
            if await self._exit_code("backup", "run", "--rehearse") == 0:
                return await self._exit_code("backup", "verify") == 0
            await self._clock.sleep(_BACKUP_S)  # the keeper may be making one
        return False

    async def _health(self) -> int:
        """The exit code of the doctor; what it found is shown unless all is well."""
        async with running([*self._plan.base, "doctor"], self._environment) as process:
            assert process.stdout is not None
            report, code = await process.stdout.read(), await process.wait()
        if code:
            write(report.decode(errors="replace"))
        return code

    async def _exit_code(self, *words: str) -> int:
        async with running([*self._plan.base, *words], self._environment) as process:
            return await process.wait()

    async def _kill_each(self) -> int:
        killed, children = 0, await self._children()
        names = [child.name for child in children]
        self._random.shuffle(names)
        for name in names:
            pause_s = self._plan.seconds * _KILLING / len(names)
            if await wait_for(self._stop, self._clock, pause_s):
                break
            child = next(each for each in await self._children() if each.name == name)
            with suppress(ProcessLookupError):
                if child.pid:
                    os.kill(child.pid, signal.SIGKILL)
                    killed += 1
        return killed

    async def _until_running(self) -> None:
        """Wait until all processes run, and the state store says so of each.

        Raises:
            PenstockError: they do not within two minutes.
        """
        waiting = "the supervisor does not answer"
        for _ in range(int(_START_S / _POLL_S)):
            with suppress(NoSupervisor):
                waiting = self._not_running(await self._children()) or await self._gone()
                if not waiting:
                    return
            await self._clock.sleep(_POLL_S)
        raise PenstockError(f"Not all processes are running: {waiting}.")

    def _not_running(self, children: Sequence[ChildStatus]) -> str:
        """Which processes have not started."""
        started = {each.pid for each in read_all(self._plan.folder) if each.state == "running"}
        waiting = [
            f"{child.name} {child.state} {child.reason}".strip()
            for child in children
            if child.state != "running"
            or (child.name.startswith(("collect:", "fetch:")) and child.pid not in started)
        ]
        return ", ".join(waiting)

    async def _gone(self) -> str:
        """Which processes were killed, and have not told the state store of their new start."""
        store = await open_store(self._plan.state_url)
        try:
            return ", ".join(each.status.name for each in await read_processes(store) if each.gone)
        finally:
            await store.close()

    async def _children(self) -> list[ChildStatus]:
        return (await send_to_supervisor(self._plan.folder, "show", [])).processes
