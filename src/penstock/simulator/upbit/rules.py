"""Defines the limits per second and group of endpoints; responses report what remains.

The documentation does not state whether seconds are aligned or sliding; sliding is the stricter
interpretation. A client that continues after refusals is banned, for longer each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config import SimulatedUpbit, Simulator
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import Rule, replaced
from penstock.simulator.upbit.refusals import said

GROUPS = ("market", "candle", "trade", "ticker", "orderbook")
ORIGIN, CONNECT = "origin", "websocket-connect"
IDLE_MS = 120_000

_PER_SECOND = 10
_MINUTES_WORTH = 600  # constant and without meaning since limits per minute were abolished
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class HistoryDepth:
    """How far back history is available."""

    second_candles_ms: int
    pages_end_at_midnight: bool
    """Whether a page of trades contains only trades of the requested day."""


def history_depth_from(settings: SimulatedUpbit) -> HistoryDepth:
    """The available history, from the settings."""
    return HistoryDepth(
        settings.second_candle_days * _DAY_MS,
        settings.trade_pages_end_at_midnight,
    )


def rules_from(settings: Simulator) -> tuple[Rule, ...]:
    """All limits, with those of the settings.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    groups = (
        Rule(group, "sliding", 1000, _PER_SECOND, "ip", "request", group=group) for group in GROUPS
    )
    return replaced(
        (
            *groups,
            Rule(ORIGIN, "sliding", 10_000, 1, "ip", "request", group=ORIGIN),
            Rule(CONNECT, "sliding", 1000, 5, "ip", "connect", group=CONNECT),
            Rule(f"{ORIGIN}-connect", "sliding", 10_000, 1, "ip", "connect", group=ORIGIN),
            Rule("websocket-message", "sliding", 1000, 5, "connection", "message"),
            Rule("websocket-messages", "sliding", 60_000, 100, "connection", "message"),
        ),
        settings,
    )


def upkeep() -> Upkeep:
    """The rules for connections: an idle one is closed."""
    return Upkeep(idle_ms=IDLE_MS)


def usage_headers(verdict: Verdict) -> Mapping[str, str]:
    """The header with the remaining requests of the group in this second."""
    for name, left in verdict.left.items():
        return {"Remaining-Req": f"group={name}; min={_MINUTES_WORTH}; sec={left}"}
    return {}


def refusal(verdict: Verdict) -> Reply:
    """429 while over a limit; 418 while banned, with the remaining time."""
    if verdict.banned_until_ms is None:
        return said(429, "too_many_requests", "Too many API requests.")
    seconds = -(-(verdict.banned_until_ms - verdict.at_ms) // 1000)
    message = f"Too many API requests. Blocked for {seconds} seconds."
    return said(418, "too_many_requests", message)
