"""The traffic light of an exchange: whether its data arrives, and why not. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from penstock.resilience.breaker import Breaker
from penstock.runtime.status import SeenProcess
from penstock.stats.fleet import is_up

Light = Literal["ok", "warning", "bad", "off"]
_STREAMING = ("collect", "tickers")
"""Processes that receive data all the time. Fetchers ask at intervals that may be long."""
_MOST_REASONS = 10


class ExchangeFacts(NamedTuple):
    """What is known of an exchange."""

    exchange: str
    now_ms: int
    processes: Sequence[tuple[str, SeenProcess]]
    """Those that collect from it, with their names."""
    connections: int = 0
    connections_up: int = 0
    gaps_open: int = 0
    blocked_until_ms: int | None = None
    breaker: Breaker = Breaker()
    is_paused: bool = False
    """Whether an operator has paused its connector."""
    stale_after_s: float = 60.0


def light_of(facts: ExchangeFacts) -> tuple[Light, list[str]]:
    """The light of an exchange, and the reasons for it, worst first."""
    bad, warning = list(_bad(facts)), list(_warnings(facts))
    why = [*bad, *warning][:_MOST_REASONS]
    if bad:
        return "bad", why
    if not any(is_up(seen) for _, seen in facts.processes):
        return "off", ["no process collects from it", *why][:_MOST_REASONS]
    return ("warning", why) if warning else ("ok", [])


def last_data_ms(seen: SeenProcess, exchange: str) -> int | None:
    """When a process last received data of an exchange; None if it has not."""
    status = seen.status
    each_has = {each.exchange: each.last_data_ms for each in status.exchanges}
    # An earlier version has only that of all exchanges together.
    return each_has[exchange] if any(each_has.values()) else status.last_data_ms


def silence_ms(seen: SeenProcess, exchange: str) -> int:
    """Time since a process received data of an exchange, or was started."""
    status = seen.status
    since_ms = last_data_ms(seen, exchange) or status.started_ms
    return status.at_ms - since_ms + max(0, seen.silent_ms)


def _bad(facts: ExchangeFacts) -> Iterator[str]:
    for name, seen in facts.processes:
        if seen.status.state == "failed":
            yield ": ".join([f"{name} failed", *seen.status.problems[:1]])
        elif seen.gone:
            yield f"{name} has not reported for {seen.silent_ms / 1000:,.0f} s"
        elif (
            seen.status.kind in _STREAMING
            and seen.status.state == "running"
            and (silent_ms := silence_ms(seen, facts.exchange)) > facts.stale_after_s * 1000
        ):
            yield f"{name}: no data for {silent_ms / 1000:,.0f} s"
    if facts.connections and not facts.connections_up:
        yield "no connection is open"
    if facts.blocked_until_ms is not None:
        left_s = max(0, facts.blocked_until_ms - facts.now_ms) / 1000
        yield f"the exchange ordered a stop, {left_s:,.0f} s are left"
    if facts.breaker.phase == "open" and facts.breaker.forced is None:
        yield ": ".join(filter(None, ["the circuit breaker is open", facts.breaker.reason]))


def _warnings(facts: ExchangeFacts) -> Iterator[str]:
    if facts.breaker.forced == "open":
        yield "an operator keeps the circuit breaker open"
    elif facts.breaker.phase == "half_open" and facts.breaker.forced is None:
        yield "the circuit breaker probes the exchange"
    if facts.is_paused:
        yield "an operator has paused the connector"
    if 0 < facts.connections_up < facts.connections:
        yield f"{facts.connections_up} of {facts.connections} connections are open"
    for name, seen in facts.processes:
        if is_up(seen):
            yield from (f"{name}: {problem}" for problem in seen.status.problems)
            if seen.status.state == "starting":
                yield f"{name} is starting"
    if facts.gaps_open:
        yield "1 gap is open" if facts.gaps_open == 1 else f"{facts.gaps_open:,} gaps are open"
