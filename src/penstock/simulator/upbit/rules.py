"""The limits: so many requests a second for each group of endpoints; answers say what is left.

Whether a second is the clock's or any second is not said; any is the stricter reading. Whoever goes
on after refusals is shut out, longer each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config import Simulator
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Rule, Verdict, replaced
from penstock.simulator.upbit.refusals import said

GROUPS = ("market", "candle", "trade", "ticker", "orderbook")
ORIGIN, CONNECT = "origin", "websocket-connect"
IDLE_MS = 120_000

_PER_SECOND = 10
_MINUTES_WORTH = 600  # frozen: it has meant nothing since limits per minute were given up
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class HistoryDepth:
    """How far back history can be asked for."""

    second_candles_ms: int
    pages_end_at_midnight: bool
    """Whether a page of trades ends with the day it is of."""


def history_depth_from(settings: Simulator) -> HistoryDepth:
    """What an operator has set."""
    return HistoryDepth(
        settings.second_candle_days * _DAY_MS,
        settings.trade_pages_end_at_midnight,
    )


def rules_from(settings: Simulator) -> tuple[Rule, ...]:
    """The rules, with what an operator has put in their place.

    Raises:
        ConfigError: what is put in their place is no limit, or of no rule.
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
    """A connection on which nothing moves is closed."""
    return Upkeep(idle_ms=IDLE_MS)


def usage_headers(verdict: Verdict) -> Mapping[str, str]:
    """What is left of the group's second."""
    for name, left in verdict.left.items():
        return {"Remaining-Req": f"group={name}; min={_MINUTES_WORTH}; sec={left}"}
    return {}


def refusal(verdict: Verdict) -> Reply:
    """429 while over a limit; 418 while shut out, with how long it will last."""
    if verdict.banned_until_ms is None:
        return said(429, "too_many_requests", "Too many API requests.")
    seconds = -(-(verdict.banned_until_ms - verdict.at_ms) // 1000)
    message = f"Too many API requests. Blocked for {seconds} seconds."
    return said(418, "too_many_requests", message)
