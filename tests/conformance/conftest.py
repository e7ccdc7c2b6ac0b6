"""Third-party clients against the simulator: a process of it, theirs, and the truth to compare.

A client runs in an environment of its own, under that environment's Python, and is told nothing but
the simulator's address. It prints what it got as one JSON object; only the tests read the ledger.
"""

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tests.forked import command
from tests.waiting import PATIENCE_S

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
SEED = 7
DEPTH = 4000
LOOK_EVERY = 10
PAGE = 10_000
LIBRARIES = {
    "binance-connector": "binance.spot", "ccxt": "ccxt.pro", "coinbasepro": "coinbasepro",
    "python-binance": "binance", "python-kraken-sdk": "kraken.spot", "pyupbit": "pyupbit",
}  # fmt: skip
"""What the scripts of each environment import."""

Level = tuple[Decimal, Decimal]


@dataclass(frozen=True)
class Simulated:
    """A running simulator, and what is true on its markets."""

    address: str

    def trades(self, symbol: str, ids: range) -> list[dict[str, Any]]:
        """Raw trades by id."""
        return self._pages("trades", symbol, ids)

    def agg_trades(self, symbol: str, ids: range) -> list[dict[str, Any]]:
        """Aggregate trades by id."""
        return self._pages("agg_trades", symbol, ids)

    def candles(self, symbol: str, borders: Sequence[int]) -> list[dict[str, Any]]:
        """Candles between borders: evenly spaced ones, or a few of any length."""
        steps = {right - left for left, right in pairwise(borders)}
        if len(steps) > 1:
            listed = ",".join(map(str, borders))
            rows = self.ask("ledger/candles", symbol=symbol, boundaries=listed)
        else:
            rows = self.ask(
                "ledger/candles",
                symbol=symbol,
                start_ms=borders[0],
                end_ms=borders[-1],
                step_ms=steps.pop(),
            )
        return list(rows["candles"])

    def window(self, symbol: str, first_ms: int, last_ms: int) -> dict[str, Any]:
        """What was traded from one instant to another, both included."""
        return self.candles(symbol, (first_ms, last_ms + 1))[0]

    def book(self, symbol: str, update_id: int, depth: int = DEPTH) -> list[list[Level]]:
        """Bids and asks at an update id."""
        book = self.ask("ledger/book", symbol=symbol, update_id=update_id, depth=depth)
        return [levels(book["bids"]), levels(book["asks"])]

    def count_joined(
        self, symbol: str, snapshot: Mapping[str, Any], deltas: Sequence[Mapping[str, Any]]
    ) -> int:
        """Follow the exchange's recipe from a snapshot through its deltas.

        The deltas join without a gap, and now and then and in the end the book is the ledger's, as
        far out as the snapshot went; how many deltas were applied.
        """
        for before, after in pairwise(deltas):
            assert after["U"] == before["u"] + 1
        update_id, joined = snapshot["lastUpdateId"], 0
        sides = [dict(levels(snapshot["bids"])), dict(levels(snapshot["asks"]))]
        lowest, highest = min(sides[0]), max(sides[1])
        for delta in deltas:
            if delta["u"] <= update_id:
                continue
            assert delta["U"] <= update_id + 1
            for side, changes in zip(sides, (delta["b"], delta["a"]), strict=True):
                side.update(levels(changes))
            update_id, joined = delta["u"], joined + 1
            if joined % LOOK_EVERY == 1 or delta is deltas[-1]:
                for side, truth in zip(sides, self.book(symbol, update_id), strict=True):
                    assert _within(side, lowest, highest) == _within(dict(truth), lowest, highest)
        return joined

    def ask(self, question: str, **query: str | int) -> Any:
        """Ask the simulator itself."""
        with urlopen(
            f"{self.address}/_sim/{question}?{urlencode(query)}", timeout=PATIENCE_S
        ) as answer:
            return json.load(answer)

    def _pages(self, kind: str, symbol: str, ids: range) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while len(rows) < len(ids):
            start, left = ids.start + len(rows), min(PAGE, len(ids) - len(rows))
            rows += self.ask(f"ledger/{kind}", symbol=symbol, from_id=start, limit=left)[kind]
        return rows


def levels(rows: Sequence[Sequence[str | float]]) -> list[Level]:
    """Price and quantity of each row; a float becomes the decimal it is written as."""
    return [(Decimal(str(price)), Decimal(str(quantity))) for price, quantity in rows]


def _within(side: Mapping[Decimal, Decimal], lowest: Decimal, highest: Decimal) -> dict[Any, Any]:
    return {p: quantity for p, quantity in side.items() if quantity and lowest <= p <= highest}


@contextmanager
def _simulator(exchange: str, symbols: str, **settings: str | int) -> Iterator[Simulated]:
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
    }
    environment = {f"PENSTOCK_SIMULATOR_{name.upper()}": str(v) for name, v in settings.items()}
    options = ["--port", "0", "--seed", str(SEED), "--symbols", symbols, "--json"]
    with (
        TemporaryFile("w+") as log,
        command(
            ["sim", exchange, *options],
            env={**outside, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            log.seek(0)
            pytest.fail(f"the simulator did not start:\n{log.read()}")
        try:
            yield Simulated(json.loads(said)["listening"])
        finally:
            process.terminate()
            process.stdout.read()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Simulated]:
    """Every market, under the real limits; only pings come sooner, so that pongs are tried."""
    with _simulator("binance", "all", binance_ping_every=2, binance_pong_within=3) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def _refusing() -> Iterator[Simulated]:
    with _simulator(
        "binance",
        "bnb_btc",
        binance_weight_limit=10,
        binance_weight_window=3,
        refusals_before_ban=2,
        first_ban=1,
        faults="http500@*/ping=1,html@*/avgPrice=1",
    ) as simulator:
        yield simulator


@pytest.fixture
def refusing(_refusing: Simulated) -> Simulated:
    """A simulator that soon refuses and bans, though not for long, and has broken endpoints."""
    with urlopen(f"{_refusing.address}/_sim/unban", data=b"", timeout=PATIENCE_S):
        return _refusing


@pytest.fixture(scope="module")
def start_simulator() -> Iterator[Callable[..., Simulated]]:
    """Start an exchange by its name, with symbols and settings; it ends with the module."""
    with ExitStack() as running:

        def start(exchange: str, symbols: str = "all", **settings: str | int) -> Simulated:
            return running.enter_context(_simulator(exchange, symbols, **settings))

        yield start


Results = dict[str, Any]
RunClients = Callable[..., Results]


@pytest.fixture(scope="session")
def run_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunClients]:
    """Run scripts of one client at the same time; what they printed, joined."""
    servers: dict[str, subprocess.Popen[str]] = {}
    with ExitStack() as running:

        def run(environment: str, address: str, *scripts: str) -> Results:
            if environment not in servers:
                servers[environment] = running.enter_context(_client_server(environment))
            folder = tmp_path_factory.mktemp("clients")
            written = [(folder / f"{each}.out", folder / f"{each}.err") for each in scripts]
            for path in chain.from_iterable(written):
                path.touch()
            files = zip((FOLDER / "clients" / each for each in scripts), written, strict=True)
            request = [address, *([str(script), *map(str, both)] for script, both in files)]
            codes = _answer(servers[environment], json.dumps(request))
            results: Results = {}
            for script, code, (output, failures) in zip(scripts, codes, written, strict=True):
                assert code == 0, f"{script} failed:\n{failures.read_text()}"
                results |= json.loads(output.read_text())
            return results

        yield run


@contextmanager
def _client_server(environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that forks scripts: see ``client_server.py``."""
    with subprocess.Popen(
        [_python_of(environment), FOLDER / "client_server.py", LIBRARIES[environment]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,  # so that its scripts can be killed with it
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _answer(server: subprocess.Popen[str], request: str) -> list[int]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{request}\n")
    server.stdin.flush()
    answered, _, _ = select.select([server.stdout], [], [], PATIENCE_S)
    if not answered:
        os.killpg(server.pid, signal.SIGKILL)  # its answer is not one to the next request
        pytest.fail(f"no answer within {PATIENCE_S} seconds to {request}")
    codes: list[int] = json.loads(server.stdout.readline())
    return codes


def _python_of(environment: str) -> Path:
    folder = ROOT / ".venvs" / environment
    if not (folder / ".ready").exists():
        missing = f"there is no {folder.relative_to(ROOT)}; `make test` builds it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return folder / "bin" / "python"
