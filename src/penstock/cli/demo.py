"""``penstock demo``: runs simulators, collectors and judges, each in its own process."""

import asyncio
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import asdict

from penstock.cli.context import Sources, read_settings
from penstock.cli.demo_view import describe_demo, draw_demo, introduction
from penstock.cli.judge import summary
from penstock.cli.options import (
    FaultsOption,
    JsonOption,
    SeedOption,
    SymbolsOption,
    say,
    split,
)
from penstock.cli.painter import write
from penstock.cli.processes import running
from penstock.cli.running import View, in_foreground, show_until
from penstock.clock import Clock, SystemClock, wait_for
from penstock.collect.status import CollectorStatus, read_all
from penstock.config import Simulator, environment_name
from penstock.errors import ConfigError, PenstockError, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.runtime.stopping import stop_on_signals
from penstock.simulator import registry as simulators
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.judge import Findings, total
from penstock.simulator.market.listings import slug

_START_S = 60.0
_POLL_S = 0.25
_LOOK_AT_BOOKS_S = 1.0
_NEXT_MARKETS = 2
"""Markets in the command that is suggested at the end."""


def demo(
    context: typer.Context,
    names: Annotated[
        str | None,
        typer.Option("--exchanges", help="Exchanges, separated by commas. Default: the first."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long to collect.")] = 30.0,
    seed: SeedOption = None,
    symbols: SymbolsOption = None,
    faults: FaultsOption = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            help="Keep the data in this folder. Default: a temporary one, deleted at the end.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Collect from simulated exchanges, then compare the records with the simulators' ledgers.

    Each exchange has a simulator, a collector and a judge, each in its own process. The collectors
    share one data folder and one store. Exits 0 if all records are correct and every missing trade
    is listed as a gap. Ctrl-C ends the collection early; the records so far are judged.

    Example: penstock demo --exchanges binance,kraken --seconds 20 --faults drop=0.01,cut=5s
    """
    options = {
        "simulator.seed": seed,
        "simulator.symbols": split(symbols),
        "simulator.faults": faults,
    }
    settings = read_settings(context, options).settings.simulator
    chosen = _choose(split(names))
    _check(settings, chosen)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as temporary:
        plan = _Plan(settings, seconds, Path(data_dir or temporary), context.obj)
        found = asyncio.run(_demo(plan, chosen))
    findings = total(found.values())
    if as_json:
        say(findings if names is None else {**asdict(findings), "exchanges": found})
    else:
        _tell(found)
        _tell_next(chosen, settings, data_dir)
    raise typer.Exit(0 if findings.honest and all(each.trades for each in found.values()) else 1)


def _choose(names: Sequence[str] | None) -> list[str]:
    """Return the exchanges of these names; the first available one if ``names`` is None.

    Raises:
        UnknownExchange: one of them cannot be simulated or collected.
    """
    offered = [name for name in simulators.names() if name in exchanges.names()]
    if names is None:
        return offered[:1]
    if not names:
        problem = f"no exchange is given. Available: {' '.join(offered)}."
        raise ConfigError("--exchanges", problem=problem, origin="command line")
    for name in names:
        if name not in offered:
            raise UnknownExchange(name, offered)
    return list(dict.fromkeys(names))


def _check(settings: Simulator, chosen: Sequence[str]) -> None:
    """Validate the simulators' settings, to report an error once and not from each simulator."""
    read_plan(settings.faults, settings.fault_seed, origin="simulator.faults")
    for name in chosen:
        simulators.catalogue(name).find(settings.symbols)


def _tell(found: Mapping[str, Findings]) -> None:
    if len(found) == 1:
        typer.echo(summary(*found.values()))
        return
    for name, findings in [*found.items(), ("total", total(found.values()))]:
        typer.echo(f"{name}:\n  " + summary(findings).replace("\n", "\n  "))


def _tell_next(chosen: Sequence[str], settings: Simulator, data_dir: str | None) -> None:
    """Print the commands to run next."""
    if data_dir is not None:
        typer.echo(f"See what was recorded: penstock status --data-dir {shlex.quote(data_dir)}")
    listed = simulators.catalogue(chosen[0]).find(settings.symbols)[:_NEXT_MARKETS]
    if data_dir is not None:
        typer.echo("Open it in Python, with penstock[lake]:")
        typer.echo(f"  import penstock; data = penstock.open({data_dir!r})")
        typer.echo(f"  data.trades({slug(listed[0])!r}).polars()")
    words = " ".join(["penstock collect", chosen[0], *map(slug, listed)])
    typer.echo(f"Next, collect from the real exchange: {words}")


class _Started(Struct):
    """The first line of a simulator's output."""

    listening: str
    symbols: list[str]


@dataclass(frozen=True)
class _Plan:
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
        return {environment_name("state.url"): f"sqlite:{self.folder / 'state.db'}"}

    def environment(self, exchange: str, address: str) -> dict[str, str]:
        """The variables for its collector and its judge; they override the operator's settings."""
        return {
            environment_name("exchanges.rest_urls"): f"{exchange}={address}",
            environment_name("exchanges.stream_urls"): f"{exchange}={address}",
            environment_name("collect.data_dir"): str(self.folder),
            environment_name("collect.book_every"): str(_LOOK_AT_BOOKS_S),
            # Its processes do not compete for a port.
            environment_name("metrics.port"): "0",
            **self.own_state,
        }


@dataclass
class _DemoProgress:
    """The progress of a demo."""

    clock: Clock
    seconds: float
    phases: dict[str, Literal["starting", "recording", "checking", "done"]]
    """By exchange."""
    _until_ns: int = 0

    def records(self, exchange: str) -> None:
        """Mark an exchange as recording, from now on for ``seconds``."""
        self.phases[exchange] = "recording"
        self._until_ns = self.clock.monotonic_ns() + round(self.seconds * 1e9)

    def describe(self) -> str:
        """The current phase; while recording, with the time left."""
        phases = set(self.phases.values())
        if "recording" in phases:
            left_s = max(0, self._until_ns - self.clock.monotonic_ns()) / 1e9
            return f"Recording, {left_s:.0f} s left. Ctrl-C ends it and checks the records."
        if "starting" in phases:
            return "Starting …"
        return "Checking the records …" if "checking" in phases else "Done."


async def _demo(plan: _Plan, chosen: Sequence[str]) -> dict[str, Findings]:
    clock, stop, over = SystemClock(), asyncio.Event(), asyncio.Event()
    stop_on_signals(stop)
    course = _DemoProgress(clock, plan.seconds, dict.fromkeys(chosen, "starting"))
    watching = asyncio.create_task(_watch(plan, course, over))
    try:
        async with asyncio.TaskGroup() as group:
            judged = {
                name: group.create_task(_collect_and_judge(plan, name, stop, course))
                for name in chosen
            }
    except ExceptionGroup as errors:
        # One exchange's failure ends the demo; the other tasks were only cancelled.
        raise errors.exceptions[0] from None
    finally:
        over.set()
        await watching
    return {name: task.result() for name, task in judged.items()}


async def _collect_and_judge(
    plan: _Plan, exchange: str, stop: asyncio.Event, course: _DemoProgress
) -> Findings:
    async with running(plan.sim(exchange), plan.own_state) as simulator:
        started = await _first_line(simulator, exchange)
        environment = plan.environment(exchange, started.listening)
        collect = [*plan.base, "collect", exchange, *started.symbols]
        async with running(collect, environment) as collector:
            died = asyncio.create_task(collector.wait())
            enough = asyncio.create_task(_collect(plan, collector.pid, stop, (course, exchange)))
            await asyncio.wait({died, enough}, return_when=asyncio.FIRST_COMPLETED)
            enough.cancel()
            course.phases[exchange] = "checking"
            if died.done():
                raise PenstockError(
                    f"The collector of {exchange} stopped early; its last output is above."
                )
        findings = await _judge([*plan.base, "judge", started.listening, "--json"], environment)
    course.phases[exchange] = "done"
    return findings


async def _collect(
    plan: _Plan, pid: int, stop: asyncio.Event, place: tuple[_DemoProgress, str]
) -> None:
    """Wait until a collector is running, and then for the length of the demo."""
    course, exchange = place
    clock = course.clock
    for _ in range(int(_START_S / _POLL_S)):
        if any(each.pid == pid and each.state == "running" for each in read_all(plan.folder)):
            break
        if await wait_for(stop, clock, _POLL_S):
            return
    course.records(exchange)
    await wait_for(stop, clock, plan.seconds)


async def _watch(plan: _Plan, course: _DemoProgress, over: asyncio.Event) -> None:
    """Show the status of the collectors until ``over`` is set."""
    words = introduction(list(course.phases), plan.seconds)
    if not in_foreground():
        write(words + "\n")

    def latest() -> dict[str, CollectorStatus | None]:
        said = {each.exchange: each for each in read_all(plan.folder)}
        return {name: said.get(name) for name in course.phases}

    view = View(
        lambda viewport: draw_demo(latest(), words, course.describe(), viewport),
        lambda: describe_demo(latest()),
    )
    await show_until(over, course.clock, view)


async def _judge(words: Sequence[str], environment: Mapping[str, str]) -> Findings:
    async with running(words, environment) as judge:
        assert judge.stdout is not None
        output = await judge.stdout.read()
        await judge.wait()
    try:
        return msgspec.json.decode(output, type=Findings)
    except msgspec.DecodeError:
        raise PenstockError("The judge failed; its last output is above.") from None


async def _first_line(process: asyncio.subprocess.Process, exchange: str) -> _Started:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), _START_S)
    if not line:
        raise PenstockError(f"The simulator did not start. Try it alone: penstock sim {exchange}")
    return msgspec.json.decode(line, type=_Started)
