"""``penstock serve``: serves the REST API and the console until it is stopped."""

import asyncio
from typing import Annotated

import typer

from penstock.app.server import open_server
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption, default, say
from penstock.cli.running import last_words_logged, run_process
from penstock.clock import SystemClock
from penstock.config import Loaded, Settings
from penstock.console import is_console_path
from penstock.runtime.stopping import opened, stop_after, stop_on_signals
from penstock.telemetry import Fact, log_facts
from penstock.web.facts import RequestServed

_PROBES = ("/healthz", "/readyz", "/metrics")


def serve(
    context: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on.", show_default=default("api.host")),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port; 0 chooses a free one.", show_default=default("api.port")),
    ] = None,
    data_dir: DataOption = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve the console and connectors, jobs, data, ticks and metrics over HTTP.

    The console is at /, the description of the API at /api/v1/openapi.json.

    Accepts local clients only, unless a token is set (PENSTOCK_API_TOKEN). Needs penstock[api].

    Example: penstock serve --port 8780 --data-dir ~/market-data
    """
    options = {"api.host": host, "api.port": port, "collect.data_dir": data_dir}
    loaded = read_settings(context, options)
    with last_words_logged():
        run_process(_serve(loaded, seconds, as_json))


async def _serve(loaded: Loaded[Settings], seconds: float | None, as_json: bool) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    async with opened(open_server(loaded, clock, _log), stop) as server:
        if server is None:
            return
        if as_json:
            say({"listening": server.url})
        else:
            typer.echo(f"listening on {server.url}; Ctrl-C stops")
        deadline = asyncio.create_task(stop_after(seconds, stop, clock))
        await stop.wait()
        deadline.cancel()


def _log(fact: Fact) -> None:
    if not (isinstance(fact, RequestServed) and fact.status < 400 and _is_frequent(fact.path)):
        log_facts(fact)


def _is_frequent(path: str) -> bool:
    # Probes arrive every few seconds, and a page of the console has many files.
    return path in _PROBES or is_console_path(path)
