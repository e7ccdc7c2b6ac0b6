"""Facts about subscriptions that an exchange refused or did not acknowledge."""

from collections.abc import Sequence
from typing import ClassVar

from penstock.streaming.subscription_failures import SubscriptionFailure
from penstock.telemetry import Fact, Level

_NAMED = 50
"""The most streams that one fact names."""


class StreamsRefused(Fact, frozen=True, kw_only=True):
    """An exchange rejected subscriptions; they are retried with growing delays.

    Logged for a stream at its first rejection, the second, the fourth and so on.
    """

    level: ClassVar[Level] = "warning"

    exchange: str
    code: str
    reason: str
    """The exchange's own words."""
    streams: tuple[str, ...]
    """Some of them: ``trades btc_usdt``. None if the exchange did not say which."""
    count: int
    times: int
    """How often in a row."""


class StreamsPending(Fact, frozen=True, kw_only=True):
    """An exchange did not acknowledge subscriptions in time. Logged as often as a rejection."""

    level: ClassVar[Level] = "warning"

    exchange: str
    reason: str
    streams: tuple[str, ...]
    count: int
    times: int


def facts_of(exchange: str, failures: Sequence[SubscriptionFailure]) -> list[Fact]:
    """Return the facts to log for failures: one for those of the same kind and code."""
    kinds: dict[tuple[str, int | str], list[SubscriptionFailure]] = {}
    for each in failures:
        kinds.setdefault((each.kind, each.code), []).append(each)
    facts: list[Fact] = []
    for (kind, code), some in kinds.items():
        stream_keys = dict.fromkeys(stream_key for each in some for stream_key in each.stream_keys)
        streams = tuple(f"{channel} {symbol.slug}" for channel, symbol in stream_keys)
        named, times = streams[:_NAMED], max(each.times for each in some)
        reason, count = some[0].words, len(streams)
        if kind == "refused":
            fact: Fact = StreamsRefused(
                exchange=exchange,
                code=str(code),
                reason=reason,
                streams=named,
                count=count,
                times=times,
            )
        else:
            fact = StreamsPending(
                exchange=exchange, reason=reason, streams=named, count=count, times=times
            )
        facts.append(fact)
    return facts
