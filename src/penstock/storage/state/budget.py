"""The rule by which all processes share an exchange's limits.

A budget is the usage of an exchange's limits: how much was taken of each, and whether the exchange
ordered a stop. A process requests capacity of several limits at once and gets all of it or none.
Limits that are counted in windows of the exchange's clock grant *blocks* of tokens, valid in that
window only; the others are *paced* (GCRA) and grant the time at which to send. ``lease`` is that
rule, pure and in whole numbers. A backend executes it in one atomic statement on its own clock, and
the contract suite compares the results with this one.

Windows are numbered by the exchange's clock as the requesting process estimates it, so a store
whose clock is stepped keeps counting. Each window also stores its end by the store's clock. A
process whose estimate of the end differs contradicts an earlier one: one of the clocks was stepped,
or one of the two estimates is wrong. Then recent usage counts in the process's window too, so that
a window in the future does not block all processes until it begins, and an older one does not free
capacity. A window is not begun before the one before is over by every estimate that a response
confirmed.

Neither time that cannot have passed nor lost data frees capacity: where the store may have lost
what it granted, everything counts as used.

Most requests are for one more block of a known, open window. ``whole_block`` returns its grant if
nothing else has to be done; a backend may then count the block and skip the rest of the rule.
"""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

# Estimates of a window's end that differ by more (store's clock) contradict each other.
_SLIP_MS = 1_000
# A stepped clock is detected within this time of the next request: in a window that began less than
# this ago, the usage of the window before may count too.
_NOTICED_MS = 30_000
# With more limits than this, those without current usage are dropped.
_MANY = 64

Use = tuple[int, ...]
"""The usage of one limit: a ``WindowUse``, or (µs up to which it is reserved, 0)."""


class WindowUse(NamedTuple):
    """The usage of a limit that is counted in windows."""

    number: int
    """The window's index."""
    used: int
    """Tokens taken in it, or the exchange's count if that is more."""
    before: int
    """Tokens used in the window before."""
    ends_ms: int
    """The end of the window by the store's clock."""
    foreign: int = 0
    """Foreign usage: the part of ``used`` that the exchange counted and no process took."""
    projected: int = 0
    """The foreign usage at the window's end at this rate."""
    expected: int = 0
    """The foreign usage that was expected when the window began."""

    def next_expected(self) -> int:
        """The foreign usage that is expected in the next window."""
        # Usage varies between windows. A foreign client that was stopped uses little, and returns.
        return max(self.projected * 11 // 10, self.expected * 3 // 4)


def window_use(use: Use | None) -> WindowUse | None:
    """A window's usage with named fields; None if it lacks some."""
    return WindowUse(*use) if use is not None and len(use) == _WINDOW_USE else None


_WINDOW_USE = 7
# Usage early in a window is a weak sample; it is projected to at most this multiple.
_MOST_STRETCH = 4


class WindowDemand(Struct, frozen=True, array_like=True, gc=False):
    """Tokens to take of a limit that is counted in windows aligned to the exchange's clock."""

    limit: str
    """The name under which its usage is stored; another period needs another name."""
    amount: int
    """Tokens per window."""
    period_ms: int
    need: int = 1
    """The least number of tokens; 0 takes none, and only reports and queries."""
    want: int = 0
    """Tokens to take if available, for requests to come."""
    seen: int = 0
    """The exchange has counted at least so much …"""
    seen_in: int = -1
    """… in the window of this index."""


class PacedDemand(Struct, frozen=True, array_like=True, gc=False):
    """Tokens to take of a limit that is met by the interval between requests."""

    limit: str
    amount: int
    """Tokens per period, evenly spread …"""
    period_ms: int
    burst: int
    """… and so many at once: no period has more than ``amount + burst``."""
    need: int = 1


class LeaseRequest(Struct, frozen=True, array_like=True):
    """A request for capacity, with what the process knows of the exchange."""

    windows: tuple[WindowDemand, ...] = ()
    paces: tuple[PacedDemand, ...] = ()
    offset_ms: int = 0
    """How far the exchange's clock is ahead of the store's."""
    opening_ms: int = 0
    """Nothing is sent in this time after the start of a window …"""
    closing_ms: int = 0
    """… nor in this time before its end, when it might arrive in the next."""
    blocked_until_ms: int = 0
    """The exchange ordered a stop until this time of the store's clock."""
    exchange_ms: int = 0
    """The exchange's time of the request, as the process estimates it; 0: the store's is used."""


class Block(Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one window, valid only in it."""

    window: int
    """Its index: exchange time divided by the period."""
    tokens: int


class LeaseReply(Struct, frozen=True, array_like=True):
    """The reply to a ``LeaseRequest``."""

    ok: bool
    now_ms: int
    """The store's time of the reply."""
    at_ms: int
    """Granted: the earliest time to send. Refused: when to request again, later than now."""
    blocks: tuple[Block, ...] = ()
    """The tokens taken of each requested window, in that order."""

    @property
    def wait_ms(self) -> int:
        """How long to wait before sending, or before the next request."""
        return self.at_ms - self.now_ms


class Budget(Struct, frozen=True, array_like=True):
    """The usage of the limits of one exchange."""

    era: str = ""
    """The period in which this was written; within a period the store loses no writes."""
    blocked_until_ms: int = 0
    refused: int = 0
    """How often there was no capacity."""
    uses: dict[str, Use] = {}
    """By limit. A window's usage of two numbers was written by an earlier version."""
    forgot: bool = False
    """Whether grants may have been lost: then a limit without usage counts as used up."""


def lease(
    budget: Budget, ask: LeaseRequest, now_ms: int, era: str = ""
) -> tuple[Budget, LeaseReply]:
    """Take what is requested, all of it or nothing.

    A budget of another ``era`` was written by a store that may have lost grants since.
    """
    # Runs with a database locked: the usual path has comparisons, faster than max and min.
    lost = budget.era not in (era, "")
    forgot = lost or budget.forgot
    reported_ms, known_ms = ask.blocked_until_ms, budget.blocked_until_ms
    blocked_ms = reported_ms if reported_ms > known_ms else known_ms
    at_ms, ready_ms = now_ms, now_ms if now_ms > blocked_ms else blocked_ms
    uses, spent, blocks = {} if lost else dict(budget.uses), dict[str, Use](), []
    if len(uses) > _MANY and not forgot:
        uses = _without_old(uses, now_ms)
    for pace in ask.paces:
        unit_us = -(-pace.period_ms * 1000 // pace.amount)
        spoken_us = _spoken_for_us(pace, uses.get(pace.limit), now_ms, forgot)
        send_ms = -(-(spoken_us + (pace.need - pace.burst) * unit_us) // 1000)
        at_ms, ready_ms = max(at_ms, send_ms), max(ready_ms, send_ms - pace.period_ms)
        uses[pace.limit] = (spoken_us, 0)
        spent[pace.limit] = (spoken_us + pace.need * unit_us, 0)
    # How far the exchange's clock is ahead of the store's now, even if the store's was stepped.
    ahead_ms = ask.exchange_ms - now_ms if ask.exchange_ms else ask.offset_ms
    for window in ask.windows:
        use = uses.get(window.limit)
        known, is_carried = _present(window, use, (now_ms, ahead_ms), ask.opening_ms, forgot)
        index, used = known.number, known.used
        ends_ms = (index + 1) * window.period_ms - ahead_ms
        opens_ms = ends_ms - window.period_ms + ask.opening_ms
        if ends_ms <= now_ms:
            ready_ms = max(ready_ms, known.ends_ms + ask.opening_ms)
        elif used + window.need > window.amount or at_ms >= ends_ms - ask.closing_ms:
            ready_ms = max(ready_ms, ends_ms + ask.opening_ms)
        elif at_ms < opens_ms:
            ready_ms = max(ready_ms, opens_ms)
        left = window.amount - used
        tokens = window.want if window.want < left else left
        tokens = tokens if tokens > window.need else window.need
        if not is_carried:
            uses[window.limit] = tuple(known)
        spent[window.limit] = (index, used + tokens, *known[2:])
        blocks.append(Block(index, tokens))
    if ready_ms > now_ms:
        # The exchange's counts are stored; the requested tokens are not taken.
        needed = bool(ask.paces) or any(window.need for window in ask.windows)
        refusal = LeaseReply(False, now_ms, ready_ms)
        return Budget(era, blocked_ms, budget.refused + needed, uses, forgot), refusal
    uses.update(spent)
    grant = LeaseReply(True, now_ms, at_ms, tuple(blocks))
    return Budget(era, blocked_ms, budget.refused, uses, forgot), grant


def unblocked(budget: Budget, until_ms: int) -> Budget | None:
    """A budget without the stop that ends at ``until_ms``; None if it has another, or none."""
    if not until_ms or budget.blocked_until_ms != until_ms:
        return None
    return replace(budget, blocked_until_ms=0)


def whole_block(ask: LeaseRequest, use: Use, now_ms: int) -> LeaseReply | None:
    """The grant of all that is wanted, if ``lease`` would only count it; None otherwise.

    For a request of one window, and a budget that is not blocked and has this usage.
    """
    if len(use) < _WINDOW_USE:
        return None
    window, (index, used, _, ends_ms, *_) = ask.windows[0], use
    ahead_ms = ask.exchange_ms - now_ms if ask.exchange_ms else ask.offset_ms
    since_ms = now_ms + ahead_ms - index * window.period_ms
    if not ask.opening_ms <= since_ms < window.period_ms - ask.closing_ms:
        return None
    if _slips(window, index, ahead_ms, ends_ms):
        return None
    if _is_later(window, index, ahead_ms, ends_ms + ask.opening_ms):
        return None
    if window.seen_in == index and window.seen > used:
        return None
    tokens = window.want if window.want > window.need else window.need
    if used + tokens > window.amount:
        return None
    return LeaseReply(True, now_ms, now_ms, (Block(index, tokens),))


def _spoken_for_us(pace: PacedDemand, use: Use | None, now_ms: int, forgot: bool) -> int:
    # Times are granted at most one period ahead: a later one was written before the clock was set
    # back.
    unit_us = -(-pace.period_ms * 1000 // pace.amount)
    furthest_us = (now_ms + pace.period_ms) * 1000 + pace.burst * unit_us
    if use is None:
        return furthest_us if forgot else now_ms * 1000
    return min(max(use[0], now_ms * 1000), furthest_us)


def _present(
    window: WindowDemand, use: Use | None, now: tuple[int, int], opening_ms: int, forgot: bool
) -> tuple[WindowUse, bool]:
    """The window to take from; and whether it includes usage of a contradicting window.

    One that is over by the process's estimate is not over yet by another's.
    """
    now_ms, ahead_ms = now
    present, is_carried = (now_ms + ahead_ms) // window.period_ms, False
    new = WindowUse(present, 0, 0, (present + 1) * window.period_ms - ahead_ms)
    known = window_use(use)
    if use is None:
        found = new._replace(used=window.amount if forgot else 0)
    elif known is not None and _slips(window, known.number, ahead_ms, known.ends_ms):
        found, is_carried = _contradicted(window, known, new, now_ms)
    else:
        ends_ms = (use[0] + 1) * window.period_ms - ahead_ms
        known = known or WindowUse(use[0], use[1], 0, ends_ms)
        # The next window may have begun for another process, whose offset is a little greater; a
        # later one was written before a clock was set back.
        if known.number > present + 1:
            found = new._replace(used=known.used)
        elif known.number >= present:
            is_later = _is_later(window, known.number, ahead_ms, known.ends_ms + opening_ms)
            found = known._replace(ends_ms=ends_ms) if is_later else known
        elif known.number < present - 1:
            found = new
        elif now_ms < known.ends_ms and window.seen_in != present:
            found = known
        else:
            found = new._replace(before=known.used, expected=known.next_expected())
    if window.seen_in == found.number and window.seen > found.used:
        since_ms = max(1, now_ms + ahead_ms - found.number * window.period_ms)
        foreign = found.foreign + window.seen - found.used
        most = foreign * _MOST_STRETCH
        projected = min(most, max(foreign, foreign * window.period_ms // since_ms))
        found = found._replace(used=window.seen, foreign=foreign, projected=projected)
    return found, is_carried


def most_slip_ms(period_ms: int) -> int:
    """How far estimates of a window's end may differ without contradicting each other."""
    return _SLIP_MS if period_ms > 2 * _SLIP_MS else period_ms // 2


def _slips(window: WindowDemand, index: int, ahead_ms: int, ends_ms: int) -> bool:
    put_ms = (index + 1) * window.period_ms - ahead_ms
    return abs(put_ms - ends_ms) > most_slip_ms(window.period_ms)


def _is_later(window: WindowDemand, index: int, ahead_ms: int, ends_ms: int) -> bool:
    """Whether a window ends later, as a process knows that had a response in it."""
    return window.seen_in == index and (index + 1) * window.period_ms - ahead_ms > ends_ms


def _contradicted(
    window: WindowDemand, known: WindowUse, new: WindowUse, now_ms: int
) -> tuple[WindowUse, bool]:
    if known.number == new.number:
        # The same window. Its new end is certain if the process had a response in it, or if the
        # store's clock was stepped by its length or more. Otherwise the later end is kept.
        is_sure = window.seen_in == known.number
        is_sure = is_sure or abs(known.ends_ms - new.ends_ms) >= window.period_ms
        ends_ms = new.ends_ms if is_sure else max(known.ends_ms, new.ends_ms)
        return known._replace(ends_ms=ends_ms), False
    if known.number == new.number + 1:
        # The exchange was set back a little. Processes have tokens of the later window, which stay
        # counted if none are granted of an earlier one.
        return known, False
    begun_ms, begins_ms = known.ends_ms - window.period_ms, new.ends_ms - window.period_ms
    if now_ms >= begun_ms - _SLIP_MS and begins_ms < known.ends_ms:
        # By the store's clock the process's window overlaps the one with the known usage.
        recent = known.before if now_ms < begun_ms + _NOTICED_MS else 0
        return new._replace(used=known.used + recent), True
    # That was long ago, or the store's clock was set back and the process may be right.
    if new.number == known.number + 1:
        return new._replace(before=known.used), False
    return new, False


def _without_old(uses: dict[str, Use], now_ms: int) -> dict[str, Use]:
    """The usages that still count: limits per market are many."""
    return {name: use for name, use in uses.items() if _counts(use, now_ms)}


def _counts(use: Use, now_ms: int) -> bool:
    if len(use) < _WINDOW_USE:
        return use[0] > now_ms * 1000 or bool(use[1])
    # Two periods; a period is the end divided by the number of windows since the epoch.
    return use[3] + 2 * (use[3] // (use[0] + 1) + 1) > now_ms
