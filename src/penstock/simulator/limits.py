"""Limits: rules as data, and the one place where arrivals are counted against them.

A rule says how much of what may happen per period; three kinds exist, because exchanges count in
three ways. ``aligned`` windows begin at whole multiples of the period, ``sliding`` ones end at the
arrival, and a ``bucket`` drains evenly. Admission charges all rules of an arrival at one instant
and writes it to the log, so that a judge can recount every window afterwards: what the log says
is what was counted. A refused arrival is charged too, unless its rule says not.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Literal, NamedTuple, Protocol

Unit = Literal["weight", "request", "message", "connect"]


@dataclass(frozen=True)
class Rule:
    """So much of something per period."""

    name: str
    kind: Literal["aligned", "sliding", "bucket"]
    period_ms: int
    limit: int
    scope: Literal["ip", "connection"]
    unit: Unit
    counts_refused: bool = True
    """Whether an arrival that was refused is charged nevertheless."""


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


@dataclass(frozen=True)
class Verdict:
    """What became of one arrival."""

    admitted: bool
    at_ms: int
    window: int
    """Which window of the first aligned rule the arrival fell into; 0 if no rule is aligned."""
    used: Mapping[str, int]
    """Rule name → used after this arrival."""
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


class Arrival(NamedTuple):
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
    """200 admitted, 429 refused, 418 banned: what the limits said, before any fault."""


class Admission:
    """Counts arrivals against the rules. Nothing here waits, so no arrival can slip between."""

    def __init__(self, rules: Iterable[Rule], bans: BanPolicy, remembered: int = 200_000) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._bans = bans
        self._usages: dict[tuple[str, str | int], _Usage] = {}
        self._offenders: dict[str, _Offender] = {}
        self._log: deque[Arrival] = deque(maxlen=remembered)
        self._seq = 0

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, as it stands now."""
        return tuple(self._rules.values())

    def admit(self, ip: str, path: str, weight: int, at_ms: int) -> Verdict:
        """Count one request."""
        verdict = self._judge(ip, {"weight": weight, "request": 1}, at_ms)
        self._write("request", ip, path, weight, verdict)
        return verdict

    def connect(self, ip: str, path: str, at_ms: int) -> Verdict:
        """Count one attempt to open a stream connection."""
        verdict = self._judge(ip, {"connect": 1}, at_ms)
        self._write("connect", ip, path, 0, verdict)
        return verdict

    def message(self, connection: int, at_ms: int) -> bool:
        """Count one message on a connection; whether it was still allowed."""
        rules = [rule for rule in self._rules.values() if rule.unit == "message"]
        usages = [self._usage(rule, connection) for rule in rules]
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
        for rule in self._rules.values():
            self._usages.pop((rule.name, connection), None)

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
        """Rule name → most that any address has used of it now."""
        most = {rule.name: 0 for rule in self._rules.values() if rule.scope == "ip"}
        for (name, _), usage in self._usages.items():
            if name in most:
                most[name] = max(most[name], usage.used(self._rules[name], at_ms))
        return most

    def arrivals(self, after_seq: int = 0) -> list[Arrival]:
        """The remembered log behind a sequence number, oldest first."""
        return list(dropwhile(lambda arrival: arrival.seq <= after_seq, self._log))

    def _judge(self, ip: str, costs: Mapping[str, int], at_ms: int) -> Verdict:
        charged = [(r, self._usage(r, ip)) for r in self._rules.values() if r.unit in costs]
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
        return Verdict(
            admitted=admitted,
            at_ms=at_ms,
            window=_window(waits, at_ms),
            used={rule.name: usage.used(rule, at_ms) for rule, usage in charged},
            broken=broken,
            retry_after_s=-(-wait_ms // 1000),
            banned_until_ms=banned_until_ms,
            seq=self._seq + 1,
        )

    def _refuse(self, ip: str, at_ms: int) -> int | None:
        offender = self._offenders.setdefault(ip, _Offender())
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

    def _usage(self, rule: Rule, key: str | int) -> "_Usage":
        usage = self._usages.get((rule.name, key))
        if usage is None:
            usage = self._usages[rule.name, key] = _USAGES[rule.kind]()
        return usage

    def _write(
        self, unit: Literal["request", "connect"], ip: str, path: str, weight: int, verdict: Verdict
    ) -> None:
        self._seq = verdict.seq
        first = next((r.name for r in self._rules.values() if r.name in verdict.used), "")
        self._log.append(
            Arrival(
                seq=verdict.seq,
                at_ms=verdict.at_ms,
                window=verdict.window,
                unit=unit,
                ip=ip,
                path=path,
                weight=weight,
                used_after=verdict.used.get(first, 0),
                status=verdict.status,
            )
        )


def _window(rules: Iterable[Rule], at_ms: int) -> int:
    return next((at_ms // rule.period_ms for rule in rules if rule.kind == "aligned"), 0)


@dataclass
class _Offender:
    window: int = -1
    refusals: int = 0
    bans: int = 0
    banned_until_ms: int = 0


class _Usage(Protocol):
    """What one address or connection has used of one rule. Instants never go back."""

    def used(self, rule: Rule, at_ms: int) -> int: ...

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        """How long until ``cost`` would fit; 0 if it does now, a period if it never will."""
        ...

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None: ...


@dataclass
class _Aligned:
    window: int = -1
    amount: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        return self.amount if at_ms // rule.period_ms == self.window else 0

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        if self.used(rule, at_ms) + cost <= rule.limit:
            return 0
        return rule.period_ms - at_ms % rule.period_ms

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.amount = self.used(rule, at_ms) + cost
        self.window = at_ms // rule.period_ms


@dataclass
class _Sliding:
    # One entry per millisecond, however many arrivals: a flood cannot outgrow the period.
    charges: deque[tuple[int, int]] = field(default_factory=deque)
    amount: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        while self.charges and self.charges[0][0] <= at_ms - rule.period_ms:
            self.amount -= self.charges.popleft()[1]
        return self.amount

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        excess = self.used(rule, at_ms) + cost - rule.limit
        if excess <= 0:
            return 0
        for charged_ms, amount in self.charges:
            excess -= amount
            if excess <= 0:
                return charged_ms + rule.period_ms - at_ms
        return rule.period_ms

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.used(rule, at_ms)
        if self.charges and self.charges[-1][0] == at_ms:
            cost_before = self.charges.pop()[1]
            self.charges.append((at_ms, cost_before + cost))
        else:
            self.charges.append((at_ms, cost))
        self.amount += cost


@dataclass
class _Bucket:
    # The level is kept in 1/period_ms of a unit, so that draining `limit` per period is a whole
    # number per millisecond and nothing is ever rounded away.
    level: int = 0
    since_ms: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        return -(-self._level(rule, at_ms) // rule.period_ms)

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        excess = self._level(rule, at_ms) + (cost - rule.limit) * rule.period_ms
        if excess <= 0:
            return 0
        return rule.period_ms if cost > rule.limit else -(-excess // rule.limit)

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.level = self._level(rule, at_ms) + cost * rule.period_ms
        self.since_ms = at_ms

    def _level(self, rule: Rule, at_ms: int) -> int:
        return max(0, self.level - (at_ms - self.since_ms) * rule.limit)


_USAGES: Mapping[str, type[_Aligned] | type[_Sliding] | type[_Bucket]] = {
    "aligned": _Aligned,
    "sliding": _Sliding,
    "bucket": _Bucket,
}
