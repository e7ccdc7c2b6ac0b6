"""Examples of the documents about what a fleet does now, for the API's description."""

from typing import Any

from penstock.connectors.stops import Refusal
from penstock.monitor.connections import Connections, ConnectionView, EventView
from penstock.monitor.limits import BreakerState, ExchangeLimits, Limits, LimitView
from penstock.monitor.process_logs import LogLine, LogPage
from penstock.resilience.breaker import Transition


def observed(exchange: str, at_ms: int) -> dict[str, Any]:
    """Return examples of responses, by operation."""
    line = LogLine(
        at_ms=at_ms,
        level="warning",
        process=f"collect-{exchange}",
        event="ConnectionLost",
        fields={"exchange": exchange, "reason": "silent for 60 s"},
    )
    return {
        "listLogs": LogPage(items=[line], next=None),
        "listConnections": _connections(exchange, at_ms),
        "showLimits": _limits(exchange, at_ms),
    }


def _connections(exchange: str, at_ms: int) -> Connections:
    opened_ms = at_ms - 7_200_000
    one = ConnectionView(
        exchange=exchange,
        process=f"collect-{exchange}",
        host="host-a",
        connection="1.1",
        state="connected",
        since_ms=opened_ms,
        messages=1_250_000,
        messages_per_s=182.5,
        last_message_ms=at_ms - 40,
        asked=12,
        acked=12,
        limit_age_ms=86_400_000,
        reconnects=1,
        events=(
            EventView(at_ms=opened_ms - 900, what="closed", reason="silent for 60 s"),
            EventView(at_ms=opened_ms, what="opened", reason=""),
        ),
    )
    return Connections(items=(one,))


def _limits(exchange: str, at_ms: int) -> Limits:
    reason = "5 of 5 requests failed, the last: … (503)."
    weight = LimitView(
        exchange=exchange,
        window="weight/60000",
        unit="weight",
        category="",
        kind="aligned",
        period_ms=60_000,
        limit=6000,
        used=1250,
        seen_used=1248,
        seen_ms=at_ms - 300,
        reset_ms=at_ms + 30_000,
    )
    breaker = BreakerState(
        state="open",
        forced=None,
        reason=reason,
        retry_at_ms=at_ms + 300_000,
        transitions=(Transition(at_ms=at_ms, to="open", reason=reason),),
    )
    refused = Refusal(at_ms=at_ms - 60_000, status=429, process="work-0", retry_after_s=30.0)
    stopped = ExchangeLimits(
        exchange=exchange,
        status="active",
        waiting=3,
        blocked_until_ms=None,
        blocked_by=None,
        breaker=breaker,
        refusals=(refused,),
    )
    return Limits(at_ms=at_ms, items=(weight,), exchanges=(stopped,))
