"""The limits: what is counted, and what breaking it is answered with.

Requests draw on a bucket of fifteen tokens that fills at ten a second; one that finds it empty
takes nothing and is told so, without a word about when to come back. Nobody is banned.
"""

from penstock.config import Simulator
from penstock.simulator.coinbase.refusals import said
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Rule, Verdict, replaced

REQUESTS, CONNECTS, MESSAGES = "public", "connections", "messages"
SUBSCRIBE_WITHIN_MS = 5000


def rules_from(settings: Simulator) -> tuple[Rule, ...]:
    """The rules, with what an operator has put in their place.

    Raises:
        ConfigError: what is put in their place is no limit, or of no rule.
    """
    return replaced(
        (
            Rule(REQUESTS, "bucket", 1500, 15, "ip", "request", counts_refused=False),
            # Twenty at once, then eight a second.
            Rule(CONNECTS, "bucket", 2500, 20, "ip", "connect", counts_refused=False),
            # Sliding is the stricter reading of so many a second: no second has more.
            Rule(MESSAGES, "sliding", 1000, 100, "ip", "message"),
        ),
        settings,
    )


def upkeep() -> Upkeep:
    """Whoever does not subscribe soon is sent away."""
    return Upkeep(subscribe_within_ms=SUBSCRIBE_WITHIN_MS)


def refusal(_verdict: Verdict) -> Reply:
    """The answer to a request over the limit."""
    return said(429, "Public rate limit exceeded")
