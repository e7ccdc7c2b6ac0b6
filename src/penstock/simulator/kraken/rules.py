"""Defines the limits of requests, connections and messages, and the responses to exceeding them.

The only figure that Kraken publishes is that one request per second is always allowed. It counts
requests by address, and those for candles and trades by address and pair. Whether the latter also
count for the address is unknown; by default they do. Refused requests count, so a client that
continues is refused for longer.
"""

from collections.abc import Sequence

from penstock.config import SimulatedKraken, Simulator
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import Rule, replaced
from penstock.simulator.kraken import refusals

PUBLIC, PAIR, CONNECTS, MESSAGES = "public", "pair", "connects", "messages"


def rules_from(settings: Simulator) -> Sequence[Rule]:
    """All limits, with those of the settings.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    public = "" if settings.kraken.markets_use_address_limit else PUBLIC
    return replaced(
        (
            Rule(PUBLIC, "bucket", 15_000, 15, "ip", "request", group=public),
            Rule(PAIR, "bucket", 15_000, 15, "key", "request", group=PAIR),
            Rule(CONNECTS, "sliding", 600_000, 150, "ip", "connect"),
            # The limit is known to exist, but not its value.
            Rule(MESSAGES, "sliding", 1_000, 20, "connection", "message"),
        ),
        settings,
    )


def upkeep_from(settings: SimulatedKraken) -> Upkeep:
    """The rules for connections: only a deadline for the first subscription."""
    return Upkeep(subscribe_within_ms=round(settings.subscribe_within * 1000))


def refusal(verdict: Verdict) -> Reply:
    """An error in a 200 for a request; Cloudflare's error page with a 429 for a connection."""
    if verdict.banned_until_ms is not None:
        return refusals.error(refusals.TEMPORARY_LOCKOUT)
    broken = verdict.broken
    if broken is not None and broken.unit == "connect":
        page = (
            b"<html><head><title>Access denied</title></head><body>error code: 1015</body></html>"
        )
        return Reply(page, status=429, content_type="text/html; charset=UTF-8")
    if broken is not None and broken.name == PAIR:
        return refusals.error(refusals.RATE_LIMIT_EXCEEDED)
    return refusals.error(refusals.TOO_MANY_REQUESTS)
