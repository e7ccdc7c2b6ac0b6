"""Defines the limits, their announcement, and the responses to exceeding them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.config import SimulatedBinance, Simulator
from penstock.errors import ConfigError
from penstock.simulator.binance.periods import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from penstock.simulator.binance.refusals import error_body
from penstock.simulator.engine.exchange import Reply, Upkeep
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import BanPolicy, Rule, ban_policy, replaced

WEIGHT, RAW, CONNECTS, MESSAGES = "REQUEST_WEIGHT", "RAW_REQUESTS", "CONNECTIONS", "MESSAGES"

_UNITS_MS = {"DAY": DAY_MS, "HOUR": HOUR_MS, "MINUTE": MINUTE_MS, "SECOND": SECOND_MS}
# The simulator takes no orders, but clients expect these entries in the array.
_ORDER_LIMITS: tuple[dict[str, str | int], ...] = (
    {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 100},
    {"rateLimitType": "ORDERS", "interval": "DAY", "intervalNum": 1, "limit": 200000},
)


@dataclass(frozen=True)
class Limits:
    """The limits of the exchange, and the responses and headers that report them."""

    weight: Rule
    raw: Rule
    connects: Rule
    messages: Rule
    bans: BanPolicy

    @property
    def rules(self) -> Sequence[Rule]:
        """All limits that are counted."""
        return (self.weight, self.raw, self.connects, self.messages)

    def announcement(self) -> list[dict[str, str | int]]:
        """``exchangeInfo.rateLimits``."""
        return [_announced(self.weight), *_ORDER_LIMITS, _announced(self.raw)]

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        """The headers with the weight used in the request's window."""
        used = verdict.used.get(self.weight.name)
        if used is None:
            return {}
        count, unit = _in_units(self.weight.period_ms)
        return {
            "X-MBX-USED-WEIGHT": str(used),
            f"X-MBX-USED-WEIGHT-{count}{unit[0]}": str(used),
        }

    def refusal(self, verdict: Verdict) -> Reply:
        """429 while over a limit, 418 while banned."""
        if verdict.banned_until_ms is not None:
            status, message = (
                418,
                (
                    "Way too much request weight used; IP banned until"
                    f" {verdict.banned_until_ms}. Please use WebSocket Streams for live updates to"
                    " avoid bans."
                ),
            )
        else:
            status, message = 429, _over(verdict.broken or self.weight)
        headers = {**self.usage_headers(verdict), "Retry-After": str(verdict.retry_after_s)}
        return Reply(error_body(-1003, message), status=status, headers=headers)


def limits_from(settings: Simulator) -> Limits:
    """The limits of the settings.

    Raises:
        ConfigError: the window of an announced limit is not a whole number of seconds.
    """
    own = settings.binance
    weight_ms, raw_ms = round(own.weight_window * 1000), round(own.raw_window * 1000)
    connect_ms = round(own.connect_window * 1000)
    rules = replaced(
        (
            Rule(WEIGHT, "aligned", weight_ms, own.weight_limit, "ip", "weight"),
            Rule(RAW, "aligned", raw_ms, own.raw_limit, "ip", "request"),
            Rule(CONNECTS, "aligned", connect_ms, own.connect_limit, "ip", "connect"),
            # Sliding is the stricter interpretation of "5 messages per second".
            Rule(MESSAGES, "sliding", SECOND_MS, own.messages_per_second, "connection", "message"),
        ),
        settings,
    )
    weight, raw, connects, messages = rules
    _check_announced(weight, "weight_window")
    _check_announced(raw, "raw_window")
    return Limits(weight, raw, connects, messages, ban_policy(settings))


def upkeep_from(settings: SimulatedBinance) -> Upkeep:
    """The rules for connections of the settings."""
    return Upkeep(
        ping_every_ms=round(settings.ping_every * 1000),
        pong_within_ms=round(settings.pong_within * 1000),
        lifetime_ms=round(settings.connection_lifetime * 1000),
        most_streams=settings.streams_per_connection,
    )


def _check_announced(rule: Rule, name: str) -> None:
    if rule.period_ms % SECOND_MS:
        raise ConfigError(
            f"simulator.binance.{name}",
            problem=f"{rule.period_ms / SECOND_MS:g} is not a whole number of seconds;"
            " exchangeInfo cannot announce other periods.",
            origin="settings",
        )


def _announced(rule: Rule) -> dict[str, str | int]:
    count, unit = _in_units(rule.period_ms)
    return {
        "rateLimitType": rule.name,
        "interval": unit,
        "intervalNum": count,
        "limit": rule.limit,
    }


def _in_units(period_ms: int) -> tuple[int, str]:
    """A period in the largest unit that divides it: 60 s is 1 MINUTE."""
    for unit, unit_ms in _UNITS_MS.items():
        if period_ms % unit_ms == 0:
            return period_ms // unit_ms, unit
    return max(1, period_ms // SECOND_MS), "SECOND"


def _over(rule: Rule) -> str:
    count, unit = _in_units(rule.period_ms)
    if rule.unit == "weight":
        return (
            f"Too much request weight used; current limit is {rule.limit} request weight per"
            f" {count} {unit}. Please use WebSocket Streams for live updates to avoid polling"
            " the API."
        )
    what = "connection attempts" if rule.unit == "connect" else "requests"
    return f"Too many {what}; current limit is {rule.limit} {what} per {count} {unit}."
