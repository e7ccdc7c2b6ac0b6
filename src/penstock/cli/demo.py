"""``penstock demo``: runs simulators, collectors and judges, each in its own process."""

import asyncio
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import typer
from msgspec.structs import asdict

from penstock.cli.context import read_settings
from penstock.cli.demo_console import console_served, free_port, market_address, open_in_browser
from penstock.cli.demo_full import is_complete, run_full
from penstock.cli.demo_parts import (
    DemoPlan,
    judge,
    of_each,
    processes_of,
    simulators_of,
    until_filled,
)
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
from penstock.cli.processes import running, while_running
from penstock.cli.running import View, in_foreground, run_process, show_until
from penstock.clock import Clock, SystemClock, wait_for
from penstock.collect.status import CollectorStatus, read_all
from penstock.config import Simulator
from penstock.errors import ConfigError, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.runtime.stopping import stop_on_signals
from penstock.simulator import registry as simulators
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.judge import Findings, total
from penstock.simulator.market.listings import slug

_START_S = 60.0
_POLL_S = 0.25
_NEXT_MARKETS = 2
"""Markets in the command that is suggested at the end."""
_SECONDS = 30.0


def demo(
    context: typer.Context,
    names: Annotated[
        str | None,
        typer.Option("--exchanges", help="Exchanges, separated by commas. Default: the first."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="How long to collect. Default: 30; on a terminal the collection then goes on.",
            show_default=False,
        ),
    ] = None,
    seed: SeedOption = None,
    symbols: SymbolsOption = None,
    faults: FaultsOption = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            help="Keep the data in this folder. Default: a new one; with --json it is deleted.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Run everything under the supervisor, and kill every process once."
        ),
    ] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the console in the browser.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the console; 0 chooses a free one.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Collect from simulated exchanges, then compare the records with the simulators' ledgers.

    Each exchange has a simulator, a collector and a judge, each in its own process, and a worker
    fills the gaps of all. They share one data folder and one store. Exits 0 if all records are
    correct and every missing trade is listed as a gap. Ctrl-C ends the collection early; the
    records so far are judged. The console, a web page, shows it live; its address is printed
    first. On a terminal without --seconds, collection and console go on after the verdict, until
    Ctrl-C. With --full, `penstock up` runs all kinds of processes for all
    exchanges, and each of them is killed once; exits 0 only if nothing is missing.

    Example: penstock demo --exchanges binance,kraken --seconds 20 --faults drop=0.01,cut=5s
    """
    options = {
        "simulator.seed": seed,
        "simulator.symbols": split(symbols),
        "simulator.faults": faults,
    }
    settings = read_settings(context, options).settings.simulator
    chosen = _offered() if full and names is None else _choose(split(names))
    _check(settings, chosen)
    # Under the supervisor it stays the same over restarts; else the server chooses one for 0.
    fixed_port = free_port(port)
    stays = seconds is None and not as_json and in_foreground()
    with _folder(data_dir, delete=as_json) as folder:
        plan = DemoPlan(settings, _SECONDS if seconds is None else seconds, folder, context.obj)
        if full:
            _report_full(run_process(run_full(plan, chosen, fixed_port)), as_json)

        def report(found: Mapping[str, Findings]) -> None:
            if as_json:
                findings = total(found.values())
                say(findings if names is None else {**asdict(findings), "exchanges": found})
            else:
                _print_findings(found)
                _print_next_steps(chosen, settings, folder)

        found = run_process(_demo(plan, chosen, _Page(port, opens, stays), report))
    findings = total(found.values())
    raise typer.Exit(0 if findings.honest and all(each.trades for each in found.values()) else 1)


def _choose(names: Sequence[str] | None) -> list[str]:
    """Return the exchanges of these names; the first available one if ``names`` is None.

    Raises:
        UnknownExchange: one of them cannot be simulated or collected.
    """
    offered = _offered()
    if names is None:
        return offered[:1]
    if not names:
        problem = f"no exchange is given. Available: {' '.join(offered)}."
        raise ConfigError("--exchanges", problem=problem, origin="command line")
    for name in names:
        if name not in offered:
            raise UnknownExchange(name, offered)
    return list(dict.fromkeys(names))


def _offered() -> list[str]:
    """The exchanges that can be simulated and collected."""
    return [name for name in simulators.names() if name in exchanges.names()]


def _report_full(findings: dict[str, Any], as_json: bool) -> NoReturn:
    if as_json:
        say(findings)
    else:
        for name, value in findings.items():
            if name != "exchanges":
                typer.echo(f"{name.replace('_', ' ')}: {value}")
    raise typer.Exit(0 if is_complete(findings) else 1)


def _check(settings: Simulator, chosen: Sequence[str]) -> None:
    """Validate the simulators' settings, to report an error once and not from each simulator."""
    read_plan(settings.faults, settings.fault_seed, origin="simulator.faults")
    for name in chosen:
        simulators.catalogue(name).find(settings.symbols)


def _print_findings(found: Mapping[str, Findings]) -> None:
    if len(found) == 1:
        typer.echo(summary(*found.values()))
        return
    for name, findings in [*found.items(), ("total", total(found.values()))]:
        typer.echo(f"{name}:\n  " + summary(findings).replace("\n", "\n  "))


def _print_next_steps(chosen: Sequence[str], settings: Simulator, folder: Path) -> None:
    """Print the commands to run next."""
    listed = simulators.catalogue(chosen[0]).find(settings.symbols)[:_NEXT_MARKETS]
    words = " ".join(["penstock collect", chosen[0], *map(slug, listed)])
    typer.echo(f"See what was recorded: penstock status --data-dir {shlex.quote(str(folder))}")
    typer.echo(f"Next, collect from the real exchange: {words}")
    typer.echo("Or open the recorded data in Python (needs penstock[lake]):")
    typer.echo("  import penstock")
    typer.echo(f"  penstock.open({str(folder)!r}).trades({slug(listed[0])!r}).polars()")


@contextmanager
def _folder(named: str | None, *, delete: bool) -> Iterator[Path]:
    """The data folder: the named one, or a new one, which is deleted at the end if it is asked."""
    if named is not None:
        yield Path(named)
    elif delete:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            yield Path(folder)
    else:
        yield Path(tempfile.mkdtemp(prefix="penstock-demo-"))


@dataclass
class _DemoProgress:
    """The progress of a demo."""

    clock: Clock
    seconds: float
    phases: dict[str, Literal["starting", "recording", "filling", "checking", "done"]]
    """By exchange."""
    console: str = ""
    """The console's address, or why there is none."""
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
        if "filling" in phases:
            return "Filling gaps …"
        return "Checking the records …" if "checking" in phases else "Done."


class _Page(NamedTuple):
    """The console of a demo, as it was asked for."""

    port: int
    opens: bool
    """Whether it is opened in the browser."""
    stays: bool
    """Whether the collection goes on after the verdict."""


async def _demo(
    plan: DemoPlan,
    chosen: Sequence[str],
    page: _Page,
    report: Callable[[Mapping[str, Findings]], None],
) -> dict[str, Findings]:
    clock, stop, opening = SystemClock(), asyncio.Event(), set[asyncio.Task[None]]()
    stop_on_signals(stop)
    course = _DemoProgress(clock, plan.seconds, dict.fromkeys(chosen, "starting"))
    async with AsyncExitStack() as stack:
        watching = await stack.enter_async_context(_watched(plan, course))
        started = await stack.enter_async_context(simulators_of(plan, chosen))
        environment = plan.environment({n: each.listening for n, each in started.items()})
        collecting = {
            name: [*plan.base, "collect", name, *started[name].symbols] for name in chosen
        }
        market = chosen[0], started[chosen[0]].symbols[0]

        def show_console(console: str) -> None:
            course.console = console
            if not in_foreground():
                write(f"Console: {console}\n")
            if page.opens and console.startswith("http"):
                address = market_address(console, *market)
                opening.add(asyncio.create_task(open_in_browser(address)))

        served = console_served(plan, environment, page.port, show_console)
        server = await stack.enter_async_context(served)

        async def collect(name: str) -> None:
            await _collect(plan, collecting[name], environment, stop, (course, name))

        async def record() -> None:
            await of_each(chosen, collect)
            await until_filled(plan, clock)

        async def judge_one(name: str) -> Findings:
            words = [*plan.base, "judge", started[name].listening, "--json"]
            findings = await judge(words, environment)
            course.phases[name] = "done"
            return findings

        needed = processes_of(started)
        async with running([*plan.base, "work"], environment) as worker:
            await while_running({"The worker": worker, **needed}, record())
        course.phases = dict.fromkeys(chosen, "checking")
        found = await of_each(chosen, judge_one)
        await watching.aclose()
        report(found)
        if page.stays and not stop.is_set():
            if server is not None and course.console.startswith("http"):
                typer.echo(f"Candles, live: {market_address(course.console, *market)}")
                needed["The console"] = server
            typer.echo("The collection goes on. Ctrl-C ends it.")
            on = {f"The collector of {name}": words for name, words in collecting.items()}
            for name, words in {"The worker": [*plan.base, "work"], **on}.items():
                needed[name] = await stack.enter_async_context(running(words, environment))
            await while_running(needed, stop.wait())
    return found


async def _collect(
    plan: DemoPlan,
    words: Sequence[str],
    environment: Mapping[str, str],
    stop: asyncio.Event,
    place: tuple[_DemoProgress, str],
) -> None:
    course, exchange = place
    async with running(words, environment) as collector:
        enough = _until_enough(plan, collector.pid, stop, place)
        await while_running({f"The collector of {exchange}": collector}, enough)
        course.phases[exchange] = "filling"


async def _until_enough(
    plan: DemoPlan, pid: int, stop: asyncio.Event, place: tuple[_DemoProgress, str]
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


@asynccontextmanager
async def _watched(plan: DemoPlan, course: _DemoProgress) -> AsyncIterator[AsyncExitStack]:
    """Show the status of the collectors until the stack, or else the block, is left."""
    over = asyncio.Event()
    watching = asyncio.create_task(_watch(plan, course, over))

    async def end() -> None:
        over.set()
        await watching

    async with AsyncExitStack() as stack:
        stack.push_async_callback(end)
        yield stack


async def _watch(plan: DemoPlan, course: _DemoProgress, over: asyncio.Event) -> None:
    """Show the status of the collectors until ``over`` is set."""
    words = introduction(list(course.phases), plan.seconds)
    if not in_foreground():
        write(words + "\n")

    def latest() -> dict[str, CollectorStatus | None]:
        said = {each.exchange: each for each in read_all(plan.folder)}
        return {name: said.get(name) for name in course.phases}

    view = View(
        lambda viewport: draw_demo(latest(), words, course.describe(), viewport, course.console),
        lambda: describe_demo(latest()),
    )
    await show_until(over, course.clock, view)
