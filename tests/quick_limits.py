"""Kraken's limits ten times as wide, in penstock and in the simulator.

One request per second makes a test wait that is about something else.
"""

from dataclasses import replace

import pytest

from penstock.exchanges.kraken import EXCHANGE
from penstock.exchanges.kraken.limits import LIMITS

_TIMES = 10


@pytest.fixture
def quick_kraken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let penstock send ten requests a second to Kraken."""
    quick = tuple(replace(each, period_ms=each.period_ms // _TIMES) for each in LIMITS)
    monkeypatch.setitem(EXCHANGE.limits_from, 0, quick)


def simulated_limits(exchange: str) -> dict[str, str]:
    """The setting ``simulator.limits`` of a simulator that allows as much."""
    return {"public": "15/1.5", "pair": "15/1.5"} if exchange == "kraken" else {}
