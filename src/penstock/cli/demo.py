"""``penstock demo``: an exchange, a collector and a judge, each a process, on this machine."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from penstock.cli.collector_view import describe_collector, draw_collector
from penstock.cli.context import Sources, read_settings
from penstock.cli.judge import summary
from penstock.cli.options import (
    DataOption,
    FaultsOption,
    JsonOption,
    SeedOption,
    SymbolsOption,
    say,
    split,
)
from penstock.cli.running import show_until, stop_after, stop_on_signals
from penstock.clock import Clock, SystemClock
from penstock.collect.status import CollectorStatus, read_all
from penstock.config import Simulator, environment_name
from penstock.errors import PenstockError
from penstock.simulator import registry
from penstock.simulator.judge import Findings

_START_S = 60.0
_STOP_S = 20.0
_POLL_S = 0.25
_LOOK_AT_BOOKS_S = 1.0


def demo(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=1, help="How long to collect.")] = 30.0,
    seed: SeedOption = None,
    symbols: SymbolsOption = None,
    faults: FaultsOption = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Collect from a simulated exchange, then judge what was collected against its ledger.

    Exits 0 when everything is right and every missing trade is known to be missing. What was
    collected is thrown away, unless a folder for it is named.

    Example: penstock demo --seconds 20 --faults drop=0.01,cut=5s
    """
    options = {
        "simulator.seed": seed,
        "simulator.symbols": split(symbols),
        "simulator.faults": faults,
    }
    settings = read_settings(context, options).settings.simulator
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as temporary:
        folder = Path(data_dir or temporary)
        findings = asyncio.run(_demo(settings, seconds, folder, context.obj))
    if as_json:
        say(findings)
    else:
        typer.echo(summary(findings))
    raise typer.Exit(0 if findings.honest and findings.trades else 1)


class _Started(Struct):
    """What the simulator says first."""

    listening: str
    symbols: list[str]


async def _demo(settings: Simulator, seconds: float, folder: Path, sources: Sources) -> Findings:
    clock, stop = SystemClock(), asyncio.Event()
    stop_on_signals(stop)
    exchange = registry.names()[0]
    base = ["--config", str(sources.file)] if sources.file else []
    listing = ["--seed", str(settings.seed)]
    if settings.symbols:
        listing += ["--symbols", ",".join(settings.symbols)]
    sim = [*base, "sim", exchange, *listing, "--faults", settings.faults, "--port", "0", "--json"]
    async with _running(sim) as simulator:
        started = await _first_line(simulator)
        address = started.listening
        environment = {
            environment_name("exchanges.rest_urls"): f"{exchange}={address}",
            environment_name("exchanges.stream_urls"): f"{exchange}={address}",
            environment_name("collect.data_dir"): str(folder),
            environment_name("collect.book_every"): str(_LOOK_AT_BOOKS_S),
        }
        collect = [*base, "collect", exchange, *started.symbols]
        async with _running(collect, environment) as collector:
            died = asyncio.create_task(collector.wait())
            died.add_done_callback(lambda _: stop.set())
            deadline = asyncio.create_task(stop_after(seconds, stop, clock))
            await _watch(folder, stop, clock)
            deadline.cancel()
            if died.done():
                raise PenstockError("The collector stopped by itself; its last words are above.")
        return await _judge([*base, "judge", address, "--json"], environment)


async def _watch(folder: Path, stop: asyncio.Event, clock: Clock) -> None:
    """Show the collector's status until ``stop``."""
    latest: CollectorStatus | None = None

    async def poll() -> None:
        nonlocal latest
        while True:
            latest = next(iter(read_all(folder)), None)
            await clock.sleep(_POLL_S)

    polling = asyncio.create_task(poll())
    await show_until(
        stop, clock, lambda: draw_collector(latest), lambda: describe_collector(latest)
    )
    polling.cancel()


async def _judge(words: Sequence[str], environment: Mapping[str, str]) -> Findings:
    async with _running(words, environment) as judge:
        assert judge.stdout is not None
        output = await judge.stdout.read()
        await judge.wait()
    try:
        return msgspec.json.decode(output, type=Findings)
    except msgspec.DecodeError:
        raise PenstockError("The judge came to no finding; its last words are above.") from None


async def _first_line(process: asyncio.subprocess.Process) -> _Started:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), _START_S)
    if not line:
        raise PenstockError("The simulator did not start. Try it alone: penstock sim")
    return msgspec.json.decode(line, type=_Started)


@asynccontextmanager
async def _running(
    words: Sequence[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A penstock command as a process; stopped in the end, gently if it lets itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", *words,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        if process.returncode not in (0, 1):
            sys.stderr.write((await errors).decode(errors="replace")[-2000:])
