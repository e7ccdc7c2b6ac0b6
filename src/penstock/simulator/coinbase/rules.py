"""Defines the limits and the response to exceeding them.

Requests take tokens from a bucket of fifteen, refilled at ten per second; signed requests from one
of thirty for each key, refilled at fifteen. A request without a token is refused, takes none, and
gets no Retry-After. There are no bans.
"""

from penstock.config import Simulator
from penstock.simulator.coinbase.refusals import said
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import Rule, replaced

REQUESTS, SIGNED, CONNECTS, MESSAGES = "public", "private", "connections", "messages"
SUBSCRIBE_WITHIN_MS = 5000


def rules_from(settings: Simulator) -> tuple[Rule, ...]:
    """All limits, with those of the settings.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    return replaced(
        (
            Rule(REQUESTS, "bucket", 1500, 15, "ip", "request", counts_refused=False, but=SIGNED),
            Rule(SIGNED, "bucket", 2000, 30, "key", "request", counts_refused=False, group=SIGNED),
            # A burst of twenty, then eight per second.
            Rule(CONNECTS, "bucket", 2500, 20, "ip", "connect", counts_refused=False),
            # Sliding is the stricter interpretation of a limit per second.
            Rule(MESSAGES, "sliding", 1000, 100, "ip", "message"),
        ),
        settings,
    )


def upkeep() -> Upkeep:
    """The rules for connections: only a deadline for the first subscription."""
    return Upkeep(subscribe_within_ms=SUBSCRIBE_WITHIN_MS)


def refusal(verdict: Verdict) -> Reply:
    """The response to a request over the limit."""
    is_signed = verdict.broken is not None and verdict.broken.name == SIGNED
    return said(429, f"{'Private' if is_signed else 'Public'} rate limit exceeded")
