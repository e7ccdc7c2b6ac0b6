"""The states of a circuit breaker, and how they change. Pure.

Closed: requests are sent. Several failures in a row open it, if they are also a large share of the
recent requests: with many requests in flight, a few failures in a row are common. Open: nothing is
sent until a cooldown has passed, which doubles each time. Half-open: one request at a time is sent,
a probe, by whoever leases it. Some successful probes close it; one that fails opens it again. The
lease of a probe ends by itself, so that a process that dies does not keep others waiting.

All times are in ms, by one clock that every caller shares.
"""

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

Phase = Literal["closed", "open", "half_open"]
Force = Literal["open", "closed"]

_BUCKETS = 10
_KEPT_TRANSITIONS = 20


class BreakerRules(Struct, frozen=True, kw_only=True):
    """When a breaker opens and closes."""

    failures: int = 5
    """Failures in a row that open it …"""
    failure_rate: float = 0.5
    """… if at least this share of the requests of the window failed …"""
    window_ms: int = 30_000
    min_requests: int = 5
    """… and there were at least so many."""
    cooldown_ms: int = 300_000
    """How long it stays open the first time."""
    longest_cooldown_ms: int = 3_600_000
    successes: int = 3
    """Successful probes that close it."""
    probe_ms: int = 60_000
    """The lease of a probe: longer than a request can take."""
    ramp_ms: int = 30_000
    """After it closed, the number of requests in flight is limited for so long."""


class Bucket(Struct, frozen=True, array_like=True):
    """The requests of a part of the window."""

    number: int
    succeeded: int = 0
    failed: int = 0


class Tally(Struct, frozen=True):
    """The results of some requests."""

    buckets: tuple[Bucket, ...] = ()
    in_a_row: int = 0
    """Failures since the last success."""
    reason: str = ""
    """The last failure."""

    def added(self, succeeded: bool, reason: str, now_ms: int, rules: BreakerRules) -> "Tally":
        """The tally with one more result, without those that have left the window."""
        one = Bucket(_bucket(now_ms, rules), int(succeeded), int(not succeeded))
        return Tally(
            _merged((*self.buckets, one), now_ms, rules),
            0 if succeeded else self.in_a_row + 1,
            self.reason if succeeded else reason,
        )

    @property
    def succeeded(self) -> int:
        return sum(each.succeeded for each in self.buckets)

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.buckets)


def joined(first: Tally, second: Tally) -> Tally:
    """The results of two tallies, the second after the first."""
    in_a_row = second.in_a_row + (0 if second.succeeded else first.in_a_row)
    return Tally((*first.buckets, *second.buckets), in_a_row, second.reason or first.reason)


class ProbeReport(NamedTuple):
    """The result of the probe with this fence."""

    fence: int
    result: Literal["succeeded", "failed", "unknown"]
    reason: str = ""


class Transition(Struct, frozen=True, kw_only=True):
    """A change of phase, or an operator's order."""

    at_ms: int
    to: Literal["closed", "open", "half_open", "forced open", "forced closed", "automatic"]
    reason: str = ""


class Breaker(Struct, frozen=True, kw_only=True):
    """A circuit breaker. A new one is closed."""

    phase: Phase = "closed"
    forced: Force | None = None
    """What an operator ordered, in place of the phase."""
    tally: Tally = Tally()
    """Results while it is closed."""
    retry_at_ms: int = 0
    """When it may be probed."""
    opened: int = 0
    """How often it opened without a long time closed between."""
    closed_at_ms: int = 0
    successes: int = 0
    """Successful probes since it was opened."""
    probe_by: str = ""
    probe_until_ms: int = 0
    fence: int = 0
    """Grows with every probe that is leased."""
    reason: str = ""
    """The failure that opened it."""
    transitions: tuple[Transition, ...] = ()
    """The latest, the newest last."""

    def is_closed(self) -> bool:
        return self.forced == "closed" or (self.forced is None and self.phase == "closed")

    def probe_due_ms(self) -> int:
        """When the next probe may be leased, unless it is closed or forced."""
        return self.retry_at_ms if self.phase == "open" else self.probe_until_ms


def with_results(
    breaker: Breaker, tally: Tally, now_ms: int, rules: BreakerRules, draw: float
) -> Breaker:
    """Add the results of requests that were no probes; ``draw`` from [0, 1) is the jitter.

    While it is open they are ignored: they were sent before. Under an operator's order they are
    ignored too.
    """
    if breaker.phase != "closed" or breaker.forced:
        return breaker
    total = joined(breaker.tally, tally)
    total = replace(total, buckets=_merged(total.buckets, now_ms, rules))
    counted = total.succeeded + total.failed
    is_failing = (
        total.in_a_row >= rules.failures
        and counted >= rules.min_requests
        and total.failed >= rules.failure_rate * counted
    )
    if not is_failing:
        return replace(breaker, tally=total)
    was_stable = now_ms - breaker.closed_at_ms >= rules.cooldown_ms
    again = replace(breaker, opened=0) if was_stable else breaker
    reason = f"{total.failed} of {counted} requests failed, the last: {total.reason}"
    return _opened(again, reason, now_ms, rules, draw)


def with_probe(breaker: Breaker, who: str, now_ms: int, rules: BreakerRules) -> Breaker | None:
    """Lease the next probe; None if it is not due, or another has it."""
    if breaker.phase == "closed" or breaker.forced or now_ms < breaker.probe_due_ms():
        return None
    leased = replace(
        breaker,
        phase="half_open",
        probe_by=who,
        probe_until_ms=now_ms + rules.probe_ms,
        fence=breaker.fence + 1,
    )
    return leased if breaker.phase == "half_open" else _noted(leased, now_ms, f"probed by {who}")


def with_probe_result(
    breaker: Breaker, probe: ProbeReport, now_ms: int, rules: BreakerRules, draw: float
) -> Breaker:
    """Apply the result of a probe, if its lease is still the latest."""
    if breaker.phase != "half_open" or breaker.fence != probe.fence:
        return breaker
    if probe.result == "failed":
        return _opened(breaker, f"a probe failed: {probe.reason}", now_ms, rules, draw)
    free = replace(breaker, probe_by="", probe_until_ms=0)
    if probe.result == "unknown":
        return free
    if breaker.successes + 1 < rules.successes:
        return replace(free, successes=breaker.successes + 1)
    closed = replace(
        free, phase="closed", tally=Tally(), retry_at_ms=0, successes=0, closed_at_ms=now_ms
    )
    return _noted(closed, now_ms, f"{rules.successes} probes succeeded")


def with_force(breaker: Breaker, force: Force | None, now_ms: int) -> Breaker:
    """Apply an operator's order; None returns to the automatic phase."""
    if force == breaker.forced:
        return breaker
    to: Literal["forced open", "forced closed", "automatic"] = "automatic"
    if force is not None:
        to = "forced open" if force == "open" else "forced closed"
    # Results from before the order do not count after it.
    forced = replace(breaker, forced=force, tally=Tally())
    return replace(forced, transitions=_kept(breaker, Transition(at_ms=now_ms, to=to)))


def in_flight_limit(breaker: Breaker, now_ms: int, rules: BreakerRules) -> int | None:
    """How many requests one process may have in flight; None: any number.

    After it closed: one, then two, four and so on, in steps of a sixth of the ramp.
    """
    since_ms = now_ms - breaker.closed_at_ms
    if breaker.closed_at_ms == 0 or breaker.forced or since_ms >= rules.ramp_ms:
        return None
    return 1 << max(0, 6 * since_ms // max(1, rules.ramp_ms))


def _opened(
    breaker: Breaker, reason: str, now_ms: int, rules: BreakerRules, draw: float
) -> Breaker:
    grown_ms = rules.cooldown_ms * 2 ** min(breaker.opened, 32)
    # At least what is configured, and not the same for all exchanges that failed together.
    cooldown_ms = round(min(grown_ms, rules.longest_cooldown_ms) * (1 + draw / 5))
    opened = replace(
        breaker,
        phase="open",
        tally=Tally(),
        retry_at_ms=now_ms + cooldown_ms,
        opened=breaker.opened + 1,
        successes=0,
        probe_by="",
        probe_until_ms=0,
        reason=reason,
    )
    return _noted(opened, now_ms, reason)


def _noted(breaker: Breaker, now_ms: int, reason: str) -> Breaker:
    new = Transition(at_ms=now_ms, to=breaker.phase, reason=reason)
    return replace(breaker, transitions=_kept(breaker, new))


def _kept(breaker: Breaker, new: Transition) -> tuple[Transition, ...]:
    return (*breaker.transitions, new)[-_KEPT_TRANSITIONS:]


def _bucket(now_ms: int, rules: BreakerRules) -> int:
    return now_ms * _BUCKETS // rules.window_ms


def _merged(buckets: tuple[Bucket, ...], now_ms: int, rules: BreakerRules) -> tuple[Bucket, ...]:
    """One bucket for each part of the window, without those that have left it."""
    oldest, total = _bucket(now_ms, rules) - _BUCKETS, dict[int, Bucket]()
    for each in buckets:
        if each.number > oldest:
            before = total.get(each.number, Bucket(each.number))
            total[each.number] = Bucket(
                each.number, before.succeeded + each.succeeded, before.failed + each.failed
            )
    return tuple(total[number] for number in sorted(total))
