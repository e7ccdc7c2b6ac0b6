"""Simulators in processes of their own, for wrappers that must not know they are watched."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.forked import command
from tests.waiting import PATIENCE_S

WEIGHT, WINDOW_S = 200, 2
"""The limit of the quick one."""


class Simulated:
    """A running simulator, seen from the moment at which somebody began to look."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._seen = 0

    def ask(self, question: str) -> Any:
        """Ask the simulator what truly happened."""
        with urlopen(f"{self.address}/_sim/{question}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def plan_faults(self, plan: str) -> None:
        """Inject these from now on."""
        body = json.dumps({"plan": plan}).encode()
        with urlopen(Request(f"{self.address}/_sim/faults", data=body), timeout=PATIENCE_S):
            pass

    def look(self) -> None:
        """Begin to look now."""
        self._seen = max((each["seq"] for each in self.requests()), default=self._seen)

    def requests(self) -> list[dict[str, Any]]:
        """Every request since, in order."""
        return list(self.ask(f"requests?after={self._seen}")["requests"])

    def statuses(self) -> list[int]:
        """What the limits said to each of them."""
        return [each["status"] for each in self.requests()]


@contextmanager
def simulator(*exchange: str, **settings: object) -> Iterator[Simulated]:
    """A simulator: of the exchange that is named, or of Binance."""
    environment = {f"PENSTOCK_SIMULATOR_{name.upper()}": str(v) for name, v in settings.items()}
    with command(
        ["sim", *exchange, "--port", "0", "--json"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            yield Simulated(json.loads(process.stdout.readline())["listening"])
        finally:
            process.terminate()
            process.stdout.read()


@pytest.fixture(scope="module")
def _usual() -> Iterator[Simulated]:
    with simulator() as simulated:
        yield simulated


@pytest.fixture(scope="module")
def _quick() -> Iterator[Simulated]:
    with simulator(binance_weight_limit=WEIGHT, binance_weight_window=WINDOW_S) as simulated:
        yield simulated


@pytest.fixture
def usual(_usual: Simulated) -> Simulated:
    """A simulator under the real limits."""
    _usual.look()
    return _usual


@pytest.fixture
def quick(_quick: Simulated) -> Simulated:
    """One whose windows are over in a moment."""
    _quick.look()
    return _quick
