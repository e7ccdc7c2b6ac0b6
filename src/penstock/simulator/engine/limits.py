"""Limits: rules as data, and the one place where arrivals are counted against them.

A rule says how much of what may happen per period; three kinds exist, because exchanges count in
three ways. ``aligned`` windows begin at whole multiples of the period, ``sliding`` ones end at the
arrival, and a ``bucket`` drains evenly. Admission charges all rules of an arrival at one instant
and writes it to the log, so that a judge can recount every window afterwards: what the log says
is what was counted. A refused arrival is charged too, unless its rule says not.

A token bucket of so many tokens, filled at so many a second, is a ``bucket`` whose limit is its
size and whose period is the time it takes to fill.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from msgspec import Struct

from penstock.config import Simulator
from penstock.errors import ConfigError
from penstock.simulator.engine.history import History, PackedPage, Page, kept_text
from penstock.simulator.engine.usage import USAGES, Usage

Unit = Literal["weight", "request", "message", "connect"]
_Counted = str | int | tuple[str, str]

MINUTE_MS = 60_000
"""The length of windows where no rule has any."""
_REQUESTS_KEPT = 200_000
_MOST_OFFENDERS = 10_000
_FEW_USAGES = 1024


@dataclass(frozen=True)
class Rule:
    """So much of something per period."""

    name: str
    kind: Literal["aligned", "sliding", "bucket"]
    period_ms: int
    limit: int
    scope: Literal["ip", "key", "connection"]
    """What is counted apart: addresses, keys of an address (``LimitTarget``), or connections."""
    unit: Unit
    counts_refused: bool = True
    """Whether an arrival that was refused is charged nevertheless."""
    group: str = ""
    """Counts only what is sent to this group of endpoints; everything if empty."""


class LimitTarget(NamedTuple):
    """Where an arrival belongs, as the limits see it."""

    group: str = ""
    """The group of endpoints; rules of other groups do not count it."""
    key: str = ""
    """What rules of scope ``key`` count apart, such as a market. One of few: each is remembered."""


ANY_TARGET = LimitTarget()


@dataclass(frozen=True)
class BanPolicy:
    """When refusing is no longer enough."""

    refusals_before_ban: int
    """So many refusals in one window are answered 429; the next one begins a ban."""
    first_ban_ms: int
    longest_ban_ms: int

    def length_ms(self, bans_before: int) -> int:
        """Each ban lasts twice as long as the one before, up to the longest."""
        # The shift is bounded so that an old offender does not build a number without end.
        return min(self.longest_ban_ms, self.first_ban_ms << min(bans_before, 40))


def ban_policy(settings: Simulator) -> BanPolicy:
    """The policy an operator has set."""
    return BanPolicy(
        settings.refusals_before_ban,
        round(settings.first_ban * 1000),
        round(settings.longest_ban * 1000),
    )


def replaced(rules: Iterable[Rule], settings: Simulator) -> tuple[Rule, ...]:
    """The rules with the limits that an operator has put in the place of their own.

    Raises:
        ConfigError: one of these is for no rule of the exchange, or is no limit.
    """
    by_name = {rule.name: rule for rule in rules}
    for name, text in settings.limits.items():
        match = re.fullmatch(r"([1-9][0-9]*)/([0-9]+(?:\.[0-9]+)?)s?", text)
        period_ms = round(float(match[2]) * 1000) if match else 0
        if match is None or name not in by_name or not period_ms:
            raise ConfigError(
                "simulator.limits",
                problem=f"{name}={text} is not allowed. Allowed: a limit and its seconds, such as"
                f" 15/10, of {', '.join(by_name)}.",
                origin="settings",
            )
        by_name[name] = replace(by_name[name], limit=int(match[1]), period_ms=period_ms)
    return tuple(by_name.values())


@dataclass(frozen=True)
class Verdict:
    """What became of one arrival."""

    admitted: bool
    at_ms: int
    window: int
    """Which window of the first aligned rule the arrival fell into; of a minute if none is."""
    used: Mapping[str, int]
    """Name of each rule that counted it → used after this arrival."""
    left: Mapping[str, int] = field(default_factory=dict)
    """The same rules → what is left of each."""
    broken: Rule | None = None
    """The rule it broke, the one with the longest wait if several; None for a ban alone."""
    retry_after_s: int = 0
    """Rounded up; at least 1 when refused."""
    banned_until_ms: int | None = None
    seq: int = 0
    """Its number in the log."""

    @property
    def status(self) -> int:
        """The HTTP status that says it: 200, 429 or 418."""
        if self.admitted:
            return 200
        return 429 if self.banned_until_ms is None else 418


class Arrival(Struct, frozen=True):
    """One line of the request log."""

    seq: int
    at_ms: int
    window: int
    unit: Literal["request", "connect"]
    ip: str
    path: str
    weight: int
    used_after: int
    """By the first rule that counts such arrivals."""
    status: int
    """200 admitted, 429 refused, 418 banned: what the limits said, before any fault.

    It says so too where the exchange's answer is an error inside a 200.
    """
    group: str = ""
    key: str = ""


@dataclass(slots=True)
class _Offender:
    window: int = -1
    refusals: int = 0
    bans: int = 0
    banned_until_ms: int = 0


class RequestLimiter:
    """Counts arrivals against the rules. Nothing here waits, so no arrival can slip between."""

    def __init__(
        self, rules: Iterable[Rule], bans: BanPolicy | None, remembered: int = _REQUESTS_KEPT
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._bans = bans
        self._usages: dict[str, dict[_Counted, Usage]] = {name: {} for name in self._rules}
        """By the rule's name, and by whoever it counts apart."""
        self._offenders: dict[str, _Offender] = {}
        self._log = History(Arrival, remembered)
        self._full = _FEW_USAGES
        self.totals: Counter[str] = Counter()
        """All arrivals there ever were, by unit (``request``) and by status (``429``)."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, as it stands now."""
        return tuple(self._rules.values())

    @property
    def counted(self) -> int:
        """How many counts are kept: one for each rule and whoever it counts apart."""
        return sum(map(len, self._usages.values()))

    def admit(
        self, ip: str, path: str, weight: int, at_ms: int, target: LimitTarget = ANY_TARGET
    ) -> Verdict:
        """Count one request."""
        verdict = self._judge(ip, {"weight": weight, "request": 1}, at_ms, target)
        self._write("request", ip, path, weight, verdict, target)
        return verdict

    def connect(self, ip: str, path: str, at_ms: int, group: str = "") -> Verdict:
        """Count one attempt to open a stream connection."""
        target = LimitTarget(group)
        verdict = self._judge(ip, {"connect": 1}, at_ms, target)
        self._write("connect", ip, path, 0, verdict, target)
        return verdict

    def message(self, connection: int, at_ms: int, ip: str = "") -> bool:
        """Count one message on a connection of an address; whether it was still allowed."""
        rules = [rule for rule in self._rules.values() if rule.unit == "message"]
        usages = [
            self._usage(rule, connection if rule.scope == "connection" else ip, at_ms)
            for rule in rules
        ]
        fits = all(u.wait_ms(r, 1, at_ms) == 0 for r, u in zip(rules, usages, strict=True))
        for rule, usage in zip(rules, usages, strict=True):
            if fits or rule.counts_refused:
                usage.charge(rule, 1, at_ms)
        return fits

    def offend(self, ip: str, at_ms: int) -> int | None:
        """Count an offence outside the rules as one refusal; until when the address is banned."""
        return self._refuse(ip, at_ms)

    def forget(self, connection: int) -> None:
        """Drop what was counted for a connection that is gone."""
        for usages in self._usages.values():
            usages.pop(connection, None)

    def change(self, name: str, limit: int) -> None:
        """Give a rule another limit; what was used stays used."""
        self._rules[name] = replace(self._rules[name], limit=limit)

    def unban(self) -> None:
        """Forgive every address."""
        self._offenders.clear()

    def banned(self, at_ms: int) -> dict[str, int]:
        """Address → end of its ban (ms)."""
        return {
            ip: offender.banned_until_ms
            for ip, offender in self._offenders.items()
            if offender.banned_until_ms > at_ms
        }

    def used(self, at_ms: int) -> dict[str, int]:
        """Rule name → most that any address, or key of one, has used of it now."""
        return {
            name: max((usage.used(rule, at_ms) for usage in self._usages[name].values()), default=0)
            for name, rule in self._rules.items()
            if rule.scope != "connection"
        }

    def arrivals(self, after_seq: int = 0, most: int | None = None) -> Page[Arrival]:
        """Up to ``most`` rows of the log behind a sequence number."""
        return self._log.page(after_seq, most)

    def packed_arrivals(self, after_seq: int, most: int) -> PackedPage:
        """The same, as JSON."""
        return self._log.packed(after_seq, most)

    def _judge(self, ip: str, costs: Mapping[str, int], at_ms: int, target: LimitTarget) -> Verdict:
        charged = [
            (rule, self._usage(rule, (ip, target.key) if rule.scope == "key" else ip, at_ms))
            for rule in self._rules.values()
            if rule.unit in costs and rule.group in ("", target.group)
        ]
        waits = {r: usage.wait_ms(r, costs[r.unit], at_ms) for r, usage in charged}
        slowest = max(waits, key=waits.__getitem__, default=None)
        broken = slowest if slowest is not None and waits[slowest] else None
        offender = self._offenders.get(ip)
        banned = offender is not None and offender.banned_until_ms > at_ms
        admitted = broken is None and not banned
        wait_ms, banned_until_ms = 0, None
        if not admitted:
            banned_until_ms = self._refuse(ip, at_ms)
            wait_ms = max(waits[broken] if broken else 0, (banned_until_ms or 0) - at_ms)
        for rule, usage in charged:
            if admitted or rule.counts_refused:
                usage.charge(rule, costs[rule.unit], at_ms)
        used = {rule.name: usage.used(rule, at_ms) for rule, usage in charged}
        return Verdict(
            admitted=admitted,
            at_ms=at_ms,
            window=_window(waits, at_ms),
            used=used,
            left={rule.name: max(0, rule.limit - used[rule.name]) for rule in waits},
            broken=broken,
            retry_after_s=-(-wait_ms // 1000),
            banned_until_ms=banned_until_ms,
            seq=self._log.written + 1,
        )

    def _refuse(self, ip: str, at_ms: int) -> int | None:
        if self._bans is None:
            return None
        offender = self._offenders.get(ip) or self._new_offender(ip)
        window = _window(self._rules.values(), at_ms)
        if offender.window != window:
            offender.window, offender.refusals = window, 0
        offender.refusals += 1
        if offender.banned_until_ms > at_ms:
            return offender.banned_until_ms
        if offender.refusals <= self._bans.refusals_before_ban:
            return None
        offender.banned_until_ms = at_ms + self._bans.length_ms(offender.bans)
        offender.bans += 1
        return offender.banned_until_ms

    def _new_offender(self, ip: str) -> _Offender:
        if len(self._offenders) >= _MOST_OFFENDERS:
            # Forgotten is whoever is not banned, or whose ban ends first.
            offenders = self._offenders
            del offenders[min(offenders, key=lambda each: offenders[each].banned_until_ms)]
        offender = self._offenders[ip] = _Offender()
        return offender

    def _usage(self, rule: Rule, key: _Counted, at_ms: int) -> Usage:
        usage = self._usages[rule.name].get(key)
        if usage is None:
            if self.counted >= self._full:
                self._forget_idle(at_ms)
            usage = self._usages[rule.name][key] = USAGES[rule.kind]()
        return usage

    def _forget_idle(self, at_ms: int) -> None:
        """Drop the counts of whoever has used nothing lately; whoever comes back begins at zero."""
        self._usages = {
            name: {key: u for key, u in usages.items() if u.used(self._rules[name], at_ms)}
            for name, usages in self._usages.items()
        }
        # Only when there are a quarter more, so that an arrival costs the same on average.
        self._full = max(_FEW_USAGES, self.counted * 5 // 4)

    def _write(
        self,
        unit: Literal["request", "connect"],
        ip: str,
        path: str,
        weight: int,
        verdict: Verdict,
        target: LimitTarget,
    ) -> None:
        self.totals.update((unit, str(verdict.status)))
        first = next((r.name for r in self._rules.values() if r.name in verdict.used), "")
        self._log.append(
            Arrival(
                seq=verdict.seq,
                at_ms=verdict.at_ms,
                window=verdict.window,
                unit=unit,
                ip=ip,
                path=kept_text(path),
                weight=weight,
                used_after=verdict.used.get(first, 0),
                status=verdict.status,
                group=target.group,
                key=target.key,
            )
        )


def _window(rules: Iterable[Rule], at_ms: int) -> int:
    lengths = (rule.period_ms for rule in rules if rule.kind == "aligned")
    return at_ms // next(lengths, MINUTE_MS)
