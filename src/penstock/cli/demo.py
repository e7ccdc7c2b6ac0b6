"""``penstock demo``: an exchange, a client and a judge, on nothing but this machine."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import aiohttp
import msgspec
import typer
from msgspec import Struct

from penstock.cli.context import Sources, read_settings
from penstock.cli.running import show_until, stop_after, stop_on_signals
from penstock.cli.sim import FaultsOption, JsonOption, SeedOption, SymbolsOption, say, split
from penstock.cli.view import describe_state, draw_state
from penstock.clock import Clock, SystemClock
from penstock.config import Simulator
from penstock.errors import PenstockError
from penstock.market.symbol import Symbol
from penstock.simulator import registry
from penstock.simulator.judge import Findings, Judge
from penstock.simulator.server import State

_START_S = 30.0
_POLL_S = 0.5


def demo(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=1, help="How long to collect.")] = 30.0,
    seed: SeedOption = None,
    symbols: SymbolsOption = None,
    faults: FaultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Collect from a simulated exchange, then judge what was collected against its ledger.

    Exits 0 when nothing is missing, doubled or wrong and no limit was broken, 1 otherwise.

    Example: penstock demo --seconds 15 --json
    """
    options = {
        "simulator.seed": seed,
        "simulator.symbols": split(symbols),
        "simulator.faults": faults,
    }
    settings = read_settings(context, options).settings.simulator
    findings = asyncio.run(_demo(settings, seconds, context.obj))
    if as_json:
        say(findings)
    else:
        typer.echo(_summary(findings))
    raise typer.Exit(0 if findings.clean and findings.trades else 1)


async def _demo(settings: Simulator, seconds: float, sources: Sources) -> Findings:
    clock, stop = SystemClock(), asyncio.Event()
    stop_on_signals(stop)
    async with _simulator(settings, sources) as started, aiohttp.ClientSession() as http:
        address, symbols = started.listening, [Symbol.parse(slug) for slug in started.symbols]
        visit = registry.visitor(registry.names()[0])
        visiting = asyncio.create_task(visit(http, address, symbols, stop))
        deadline = asyncio.create_task(stop_after(seconds, stop, clock))
        await _watch(http, address, stop, clock)
        deadline.cancel()
        visitor = await visiting
        return await Judge(http, address).judge(visitor.trades, visitor.books())


async def _watch(
    http: aiohttp.ClientSession, address: str, stop: asyncio.Event, clock: Clock
) -> None:
    """Show the simulator's view until ``stop``."""
    state = await _state(http, address)

    async def poll() -> None:
        nonlocal state
        while True:
            await clock.sleep(_POLL_S)
            state = await _state(http, address)

    polling = asyncio.create_task(poll())
    await show_until(stop, clock, lambda: draw_state(state), lambda: describe_state(state))
    polling.cancel()


async def _state(http: aiohttp.ClientSession, address: str) -> State:
    async with http.get(f"{address}/_sim/state") as answer:
        return msgspec.json.decode(await answer.read(), type=State)


class _Started(Struct):
    """What the simulator says first."""

    listening: str
    symbols: list[str]


@asynccontextmanager
async def _simulator(settings: Simulator, sources: Sources) -> AsyncIterator[_Started]:
    """A simulator in a process of its own, on a free port."""
    file = ["--config", str(sources.file)] if sources.file else []
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", *file, "sim", "--port", "0", "--json",
        "--seed", str(settings.seed), "--symbols", ",".join(settings.symbols),
        "--faults", settings.faults,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        if not line:
            raise PenstockError("The simulator did not start. Try it alone: penstock sim")
        yield msgspec.json.decode(line, type=_Started)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _summary(findings: Findings) -> str:
    verdict = "complete and right" if findings.clean else "NOT complete, or wrong"
    return (
        f"{findings.trades:,} trades ({findings.trades_missing} missing,"
        f" {findings.trades_duplicated} twice, {findings.trades_wrong} wrong),"
        f" {findings.books_synced} books synced ({findings.book_mismatches} wrong),"
        f" {findings.requests} requests ({findings.http_429} × 429, {findings.http_418} × 418):"
        f" {verdict}"
    )
