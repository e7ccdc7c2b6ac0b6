"""The limits of an exchange as rules, and its bans.

A rule limits an amount per period. There are three kinds, because exchanges count in three ways:
``aligned`` windows begin at whole multiples of the period, ``sliding`` windows end at the arrival,
and a ``bucket`` drains evenly. A token bucket is a ``bucket`` whose limit is the number of tokens
and whose period is the time it takes to refill.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from penstock.config import Simulator
from penstock.errors import ConfigError

Unit = Literal["weight", "request", "message", "connect"]


@dataclass(frozen=True)
class Rule:
    """A limit on an amount per period."""

    name: str
    kind: Literal["aligned", "sliding", "bucket"]
    period_ms: int
    limit: int
    scope: Literal["ip", "key", "connection"]
    """What is counted separately: addresses, keys of an address (``LimitTarget``), connections."""
    unit: Unit
    counts_refused: bool = True
    """Whether a refused arrival is charged."""
    group: str = ""
    """The group of endpoints that the rule counts; all if empty …"""
    but: str = ""
    """… except this group."""

    def counts(self, group: str) -> bool:
        """Whether it counts arrivals of a group."""
        return self.group in ("", group) and not (self.but and self.but == group)


class LimitTarget(NamedTuple):
    """The group and key under which an arrival is counted."""

    group: str = ""
    """The group of endpoints; rules of other groups do not count it."""
    key: str = ""
    """What rules of scope ``key`` count separately, such as a market. Each is kept, so use few."""


ANY_TARGET = LimitTarget()


@dataclass(frozen=True)
class BanPolicy:
    """When an address is banned, and for how long."""

    refusals_before_ban: int
    """The number of refusals in a window that get a 429; the next one starts a ban."""
    first_ban_ms: int
    longest_ban_ms: int

    def length_ms(self, bans_before: int) -> int:
        """The length of the next ban: twice the previous one, up to the longest."""
        # The shift is bounded so that the number does not grow with every ban.
        return min(self.longest_ban_ms, self.first_ban_ms << min(bans_before, 40))


def ban_policy(settings: Simulator) -> BanPolicy:
    """The ban policy of the settings."""
    return BanPolicy(
        settings.refusals_before_ban,
        round(settings.first_ban * 1000),
        round(settings.longest_ban * 1000),
    )


def replaced(rules: Iterable[Rule], settings: Simulator) -> tuple[Rule, ...]:
    """The rules with their limits replaced by those of the settings.

    Raises:
        ConfigError: the settings name a rule that does not exist, or a limit cannot be parsed.
    """
    by_name = {rule.name: rule for rule in rules}
    for name, text in settings.limits.items():
        match = re.fullmatch(r"([1-9][0-9]*)/([0-9]+(?:\.[0-9]+)?)s?", text)
        period_ms = round(float(match[2]) * 1000) if match else 0
        if match is None or name not in by_name or not period_ms:
            raise ConfigError(
                "simulator.limits",
                problem=f"{name}={text} is not allowed. Allowed: a limit and its period in seconds,"
                f" such as 15/10, for {', '.join(by_name)}.",
                origin="settings",
            )
        by_name[name] = replace(by_name[name], limit=int(match[1]), period_ms=period_ms)
    return tuple(by_name.values())
