"""What both kinds of demo share: simulators, the settings of the other processes, and the judge."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from penstock.cli.context import Sources
from penstock.cli.processes import running
from penstock.clock import Clock
from penstock.config import Simulator, environment_name
from penstock.coverage.gap_rows import GapRows
from penstock.errors import PenstockError
from penstock.simulator.judge import Findings
from penstock.storage.state import open_store

T = TypeVar("T")
_START_S = 60.0
_POLL_S = 0.25
_LOOK_AT_BOOKS_S = 1.0
_GAP_WATCH_S = 1.0
_FILL_S = 60.0
"""How long to wait at the end for gaps to be filled."""


class _Started(Struct):
    """The first line of a simulator's output."""

    listening: str
    symbols: list[str]


class RunningSimulator(NamedTuple):
    """The simulator of an exchange."""

    listening: str
    symbols: list[str]
    process: asyncio.subprocess.Process


@dataclass(frozen=True)
class DemoPlan:
    """The parameters that all exchanges of a demo share."""

    settings: Simulator
    seconds: float
    folder: Path
    sources: Sources

    @property
    def base(self) -> list[str]:
        """The first arguments of every command."""
        return ["--config", str(self.sources.file)] if self.sources.file else []

    def sim(self, exchange: str) -> list[str]:
        """The arguments that start an exchange's simulator."""
        listing = ["--seed", str(self.settings.seed), "--faults", self.settings.faults]
        if self.settings.symbols:
            listing += ["--symbols", ",".join(self.settings.symbols)]
        own = ["--data-dir", str(self.folder), "--port", "0", "--json"]
        return [*self.base, "sim", exchange, *listing, *own]

    @property
    def own_state(self) -> dict[str, str]:
        """The variables for every process: a demo does not use the fleet's store."""
        return {environment_name("state.url"): self.state_url}

    @property
    def state_url(self) -> str:
        """The store of the demo."""
        return f"sqlite:{self.folder / 'state.db'}"

    def environment(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """The variables for all other processes; they override the operator's settings."""
        urls = ",".join(f"{exchange}={address}" for exchange, address in addresses.items())
        return {
            environment_name("exchanges.rest_urls"): urls,
            environment_name("exchanges.stream_urls"): urls,
            environment_name("collect.data_dir"): str(self.folder),
            environment_name("collect.book_every"): str(_LOOK_AT_BOOKS_S),
            environment_name("jobs.gap_watch"): str(_GAP_WATCH_S),
            # Its processes do not compete for a port.
            environment_name("metrics.port"): "0",
            **self.own_state,
        }


@asynccontextmanager
async def simulators_of(
    plan: DemoPlan, exchanges: Sequence[str]
) -> AsyncIterator[dict[str, RunningSimulator]]:
    """Run the simulators of these exchanges."""
    async with AsyncExitStack() as stack:
        processes = {
            name: await stack.enter_async_context(running(plan.sim(name), plan.own_state))
            for name in exchanges
        }
        yield await of_each(exchanges, lambda name: _first_line(processes[name], name))


def processes_of(
    simulators: Mapping[str, RunningSimulator],
) -> dict[str, asyncio.subprocess.Process]:
    """The processes of simulators, by what an error calls them."""
    return {f"The simulator of {name}": each.process for name, each in simulators.items()}


async def of_each(
    names: Sequence[str], do: Callable[[str], Coroutine[None, None, T]]
) -> dict[str, T]:
    """Do something for all exchanges at the same time; return the results by exchange."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(do(name)) for name in names}
    except ExceptionGroup as errors:
        # One exchange's failure ends the demo; the other tasks were only cancelled.
        raise errors.exceptions[0] from None
    return {name: task.result() for name, task in tasks.items()}


async def until_filled(plan: DemoPlan, clock: Clock) -> None:
    """Wait until the worker has filled all gaps, but not for ever."""
    store = await open_store(plan.state_url)
    try:
        for _ in range(int(_FILL_S / _POLL_S)):
            if not await GapRows(store).find(state="open"):
                break
            await clock.sleep(_POLL_S)
    finally:
        await store.close()


async def judge(words: Sequence[str], environment: Mapping[str, str]) -> Findings:
    """Run a judge; return its findings.

    Raises:
        PenstockError: it failed.
    """
    async with running(words, environment) as process:
        assert process.stdout is not None
        output = await process.stdout.read()
        await process.wait()
    try:
        return msgspec.json.decode(output, type=Findings)
    except msgspec.DecodeError:
        raise PenstockError("The judge failed; its last output is above.") from None


async def _first_line(process: asyncio.subprocess.Process, exchange: str) -> RunningSimulator:
    assert process.stdout is not None
    line = b""
    with suppress(TimeoutError):
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
    if not line:
        raise PenstockError(f"The simulator did not start. Try it alone: penstock sim {exchange}")
    started = msgspec.json.decode(line, type=_Started)
    return RunningSimulator(started.listening, started.symbols, process)
