"""Counts arrivals (requests, connects, messages) against rules.

Admission charges all rules of an arrival at once and writes the arrival to the log, so that the
judge can recount every window afterwards. A refused arrival is charged too, unless its rule
excludes that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from msgspec import Struct

from penstock.simulator.engine.history import History, PackedPage, Page, kept_text
from penstock.simulator.engine.rules import ANY_TARGET, BanPolicy, LimitTarget, Rule
from penstock.simulator.engine.usage import USAGES, Usage

_Counted = str | int | tuple[str, str]

MINUTE_MS = 60_000
"""The length of windows if no rule is aligned."""
_REQUESTS_KEPT = 200_000
_MOST_OFFENDERS = 10_000
_FEW_USAGES = 1024


@dataclass(frozen=True)
class Verdict:
    """The result of counting one arrival."""

    admitted: bool
    at_ms: int
    window: int
    """The window of the arrival by the first aligned rule; a minute if no rule is aligned."""
    used: Mapping[str, int]
    """Name of each rule that counted it → usage after this arrival."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Name of each rule that counted it → remaining amount."""
    broken: Rule | None = None
    """The exceeded rule, the one with the longest wait if several; None for a ban alone."""
    retry_after_s: int = 0
    """Rounded up; at least 1 if refused."""
    banned_until_ms: int | None = None
    seq: int = 0
    """Its number in the log."""

    @property
    def status(self) -> int:
        """The HTTP status of the verdict: 200, 429 or 418."""
        if self.admitted:
            return 200
        return 429 if self.banned_until_ms is None else 418


class Arrival(Struct, frozen=True):
    """One row of the request log."""

    seq: int
    at_ms: int
    window: int
    unit: Literal["request", "connect"]
    ip: str
    path: str
    weight: int
    used_after: int
    """Usage by the first rule that counts such arrivals."""
    status: int
    """200 admitted, 429 refused, 418 banned: the verdict of the limits, before any fault.

    The same where the exchange responds with an error inside a 200.
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
    """Counts arrivals against the rules. No method awaits, so counting is atomic."""

    def __init__(
        self, rules: Iterable[Rule], bans: BanPolicy | None, remembered: int = _REQUESTS_KEPT
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._bans = bans
        self._usages: dict[str, dict[_Counted, Usage]] = {name: {} for name in self._rules}
        """By the rule's name, and by the address, key or connection that it counts separately."""
        self._offenders: dict[str, _Offender] = {}
        self._log = History(Arrival, remembered)
        self._full = _FEW_USAGES
        self.totals: Counter[str] = Counter()
        """All arrivals since the start, by unit (``request``) and by status (``429``)."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules with their current limits."""
        return tuple(self._rules.values())

    @property
    def counted(self) -> int:
        """The number of counts kept: one per rule and address, key or connection."""
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
        """Count one message on a connection; return whether it was allowed."""
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
        """Count a violation outside the rules as a refusal; return the end of a ban, if any."""
        return self._refuse(ip, at_ms)

    def forget(self, connection: int) -> None:
        """Drop the counts of a closed connection."""
        for usages in self._usages.values():
            usages.pop(connection, None)

    def change(self, name: str, limit: int) -> None:
        """Change the limit of a rule; its usage is kept."""
        self._rules[name] = replace(self._rules[name], limit=limit)

    def unban(self) -> None:
        """Lift all bans and reset the refusals of every address."""
        self._offenders.clear()

    def banned(self, at_ms: int) -> dict[str, int]:
        """Address → end of its ban (ms)."""
        return {
            ip: offender.banned_until_ms
            for ip, offender in self._offenders.items()
            if offender.banned_until_ms > at_ms
        }

    def used(self, at_ms: int) -> dict[str, int]:
        """Rule name → highest current usage of any address, or key of one."""
        return {
            name: max((usage.used(rule, at_ms) for usage in self._usages[name].values()), default=0)
            for name, rule in self._rules.items()
            if rule.scope != "connection"
        }

    def arrivals(self, after_seq: int = 0, most: int | None = None) -> Page[Arrival]:
        """Up to ``most`` rows of the log after a sequence number."""
        return self._log.page(after_seq, most)

    def packed_arrivals(self, after_seq: int, most: int) -> PackedPage:
        """Up to ``most`` rows of the log after a sequence number, as JSON."""
        return self._log.packed(after_seq, most)

    def _judge(self, ip: str, costs: Mapping[str, int], at_ms: int, target: LimitTarget) -> Verdict:
        charged = [
            (rule, self._usage(rule, (ip, target.key) if rule.scope == "key" else ip, at_ms))
            for rule in self._rules.values()
            if rule.unit in costs and rule.counts(target.group)
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
            # Drop an address that is not banned, or the one whose ban ends first.
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
        """Drop the counts whose current usage is zero."""
        self._usages = {
            name: {key: u for key, u in usages.items() if u.used(self._rules[name], at_ms)}
            for name, usages in self._usages.items()
        }
        # The next time with a quarter more counts, so that the average cost of an arrival is
        # constant.
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
