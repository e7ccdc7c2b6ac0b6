"""Alerts: when one fires, when it is resolved, and when it is to be sent. Pure.

A *condition* is something that is wrong now. While it is reported, an alert fires. It is resolved
when its condition was not reported for a minute, so that what comes and goes is one alert. What is
sent is decided by what was sent before: one that fires is sent once, again after the cooldown while
it lasts, and a resolved one if its firing was sent. One that fires again within the cooldown waits
for its end. All of that is in the alert itself, so any process can go on where another stopped.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Severity = Literal["warning", "critical"]
State = Literal["firing", "resolved"]
What = Literal["firing", "still firing", "resolved"]
"""What is sent of an alert."""

CLEAR_MS = 60_000
"""A condition that was not reported for this long is over."""
KEPT_MS = 7 * 86_400_000
"""Resolved alerts are kept for this long."""
MOST = 500
"""Conditions beyond this number are left out; the critical ones come first."""


class Condition(Struct, frozen=True, kw_only=True):
    """Something that is wrong now."""

    rule: str
    """What kind of problem it is."""
    subject: str
    """What has it; with the rule it tells conditions apart."""
    message: str
    severity: Severity = "warning"

    @property
    def id(self) -> str:
        return f"{self.rule}/{self.subject}"


class Alert(Struct, frozen=True, kw_only=True):
    """A condition over time. Times are those of the state store."""

    rule: str
    subject: str
    message: str
    """What was reported last."""
    severity: Severity
    state: State
    since_ms: int
    """When it fired."""
    seen_ms: int
    """When its condition was last reported."""
    changed_ms: int
    """When it fired or was resolved."""
    times: int = 1
    """How often it fired."""
    sent: State | None = None
    """What was sent last; None if nothing was."""
    sent_ms: int = 0
    """When it was last sent that it fires."""

    @property
    def id(self) -> str:
        return f"{self.rule}/{self.subject}"


def evaluate(
    alerts: Mapping[str, Alert], conditions: Iterable[Condition], now_ms: int
) -> dict[str, Alert]:
    """The alerts that changed, given what is wrong now."""
    ordered = sorted(conditions, key=lambda each: (each.severity != "critical", each.id))
    reported = {each.id: each for each in reversed(ordered[:MOST])}
    changed = {}
    for id_, condition in reported.items():
        changed[id_] = _reported(alerts.get(id_), condition, now_ms)
    for id_, alert in alerts.items():
        is_over = alert.state == "firing" and now_ms - alert.seen_ms >= CLEAR_MS
        if id_ not in reported and is_over:
            changed[id_] = replace(alert, state="resolved", changed_ms=now_ms)
    return changed


def _reported(known: Alert | None, condition: Condition, now_ms: int) -> Alert:
    fields = {
        "message": condition.message,
        "severity": condition.severity,
        "seen_ms": now_ms,
    }
    if known is None:
        return Alert(
            rule=condition.rule,
            subject=condition.subject,
            message=condition.message,
            severity=condition.severity,
            state="firing",
            since_ms=now_ms,
            seen_ms=now_ms,
            changed_ms=now_ms,
        )
    if known.state == "resolved":
        again = {"state": "firing", "since_ms": now_ms, "changed_ms": now_ms}
        return replace(known, **fields, **again, times=known.times + 1)
    return replace(known, **fields)


def to_send(alert: Alert, now_ms: int, cooldown_ms: int) -> What | None:
    """What is to be sent of an alert now; None: nothing."""
    if alert.state == "resolved":
        return "resolved" if alert.sent == "firing" else None
    if alert.sent is not None and now_ms - alert.sent_ms < cooldown_ms:
        return None
    return "still firing" if alert.sent == "firing" else "firing"


def as_sent(alert: Alert, what: What, now_ms: int) -> Alert:
    """An alert after this was sent of it, whatever has become of it meanwhile."""
    if what == "resolved":
        return replace(alert, sent="resolved")
    return replace(alert, sent="firing", sent_ms=now_ms)


def is_outdated(alert: Alert, now_ms: int) -> bool:
    """Whether an alert need not be kept."""
    return alert.state == "resolved" and now_ms - alert.changed_ms > KEPT_MS


def newest_first(alerts: Iterable[Alert]) -> list[Alert]:
    """Those that fire before those that are resolved; the latest change first."""
    return sorted(alerts, key=lambda each: (each.state != "firing", -each.changed_ms, each.id))
