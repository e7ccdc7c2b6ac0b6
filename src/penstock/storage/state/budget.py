"""Budgets: the rule by which a fleet shares an exchange's limits.

A budget is what is known of an exchange's limits: how much was taken of each, and whether the
exchange said stop. A process asks for capacity of several limits at once and gets all of it or
none. Limits that are counted in windows of the exchange's clock give *blocks* of tokens, good in
that window alone; the others are *paced* (GCRA) and give the instant at which to send. ``lease`` is
that rule, pure and in whole numbers. A backend carries it out in one atomic statement on its own
clock, and the contract suite holds it to this one.

Windows are numbered by the exchange's clock as the asker reads it, so a store whose clock is set
counts on as before. Beside its count each window has its end by the store's clock. An asker that
puts it elsewhere contradicts whoever asked before: one of the clocks was set, or one of the two is
wrong. Then what was taken of late counts in the asker's window too, so that neither a number that
lies ahead mutes everybody until it comes, nor an older one makes room.

Time that cannot have passed, and a memory that was lost, never make room: where the store may have
forgotten what it granted, everything counts as taken.

Most asks are for one more block of a window that is known and open. ``whole_block`` tells whether
that is all there is to it; a backend may then count the block and leave the rest of the rule alone.
"""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

# Askers whose windows end so far apart by the store's clock contradict each other.
_SLIP_MS = 1_000
# A clock that was set is noticed within so long of the next request: what was taken in the window
# before may count in the present one too if that began later.
_NOTICED_MS = 30_000
# With more limits than this, those are dropped of which nothing counts any more.
_MANY = 64

Use = tuple[int, ...]
"""What is known of one limit: a ``WindowUse``, or (µs up to which it is spoken for, 0)."""


class WindowUse(NamedTuple):
    """What is known of a limit that is counted in windows."""

    number: int
    """The window's index."""
    used: int
    """Taken in it, or counted by the exchange if that is more."""
    before: int
    """Used in the one before."""
    ends_ms: int
    """By the store's clock."""
    foreign: int = 0
    """The part of it that the exchange counted and nobody here took."""
    projected: int = 0
    """What that would be by the window's end at this rate."""
    expected: int = 0
    """What it was expected to be when the window began."""

    def next_expected(self) -> int:
        """What others at this address will probably use in the next window."""
        # Nobody is as regular as in the last window. Who was told to stop uses little, and returns.
        return max(self.projected * 11 // 10, self.expected * 3 // 4)


def window_use(use: Use | None) -> WindowUse | None:
    """A window's use by the names of its fields, if it has them all."""
    return WindowUse(*use) if use is not None and len(use) == _WINDOW_USE else None


_WINDOW_USE = 7
# A short look says little about a whole window; it is stretched no further than this.
_MOST_STRETCH = 4


class WindowDemand(Struct, frozen=True, array_like=True, gc=False):
    """What to take of a limit that is counted in windows aligned to the exchange's clock."""

    limit: str
    """The name under which its use is kept; another period needs another name."""
    amount: int
    """So much per window."""
    period_ms: int
    need: int = 1
    """Nothing less is of use; 0 only tells and asks."""
    want: int = 0
    """Take so much if there is that much, for requests to come."""
    seen: int = 0
    """The exchange counts at least so much …"""
    seen_in: int = -1
    """… in the window of this index."""


class PacedDemand(Struct, frozen=True, array_like=True, gc=False):
    """What to take of a limit that is kept by the distance between requests."""

    limit: str
    amount: int
    """So much per period, evenly …"""
    period_ms: int
    burst: int
    """… and so much at once: no period ever sees more than ``amount + burst``."""
    need: int = 1


class LeaseRequest(Struct, frozen=True, array_like=True):
    """A request for capacity, with what the asker knows."""

    windows: tuple[WindowDemand, ...] = ()
    paces: tuple[PacedDemand, ...] = ()
    offset_ms: int = 0
    """How far the exchange's clock is ahead of the store's."""
    opening_ms: int = 0
    """Nothing is let go in the first moments of a window …"""
    closing_ms: int = 0
    """… nor in the last, when it might arrive in the next."""
    blocked_until_ms: int = 0
    """The exchange said stop until this instant of the store's clock."""
    exchange_ms: int = 0
    """The exchange's time when this was asked, as the asker knows it; 0 goes by the store's."""


class Block(Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one window; they die with it."""

    window: int
    """Its index: exchange time divided by the period."""
    tokens: int


class LeaseReply(Struct, frozen=True, array_like=True):
    """The answer to an ask."""

    ok: bool
    now_ms: int
    """The store's instant of the answer."""
    at_ms: int
    """Granted: send then, and not before. Refused: ask again then, which is later than now."""
    blocks: tuple[Block, ...] = ()
    """What was taken of each window asked for, in that order."""

    @property
    def wait_ms(self) -> int:
        """How long to wait before sending, or before asking again."""
        return self.at_ms - self.now_ms


class Budget(Struct, frozen=True, array_like=True):
    """What is known of the limits of one exchange."""

    era: str = ""
    """The span of the store's memory that this was written in."""
    blocked_until_ms: int = 0
    refused: int = 0
    """How often there was no room."""
    uses: dict[str, Use] = {}
    """By limit. A window's use of two numbers was written before the others were kept."""
    forgot: bool = False
    """Something may have been granted and forgotten: a limit without a use counts as taken."""


def lease(
    budget: Budget, ask: LeaseRequest, now_ms: int, era: str = ""
) -> tuple[Budget, LeaseReply]:
    """Take what is asked for, all of it or nothing.

    A budget of another ``era`` was written by a store that may have forgotten since.
    """
    # Run with a database locked: on the usual way through, comparisons rather than max and min.
    lost = budget.era not in (era, "")
    forgot = lost or budget.forgot
    told_ms, known_ms = ask.blocked_until_ms, budget.blocked_until_ms
    blocked_ms = told_ms if told_ms > known_ms else known_ms
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
    # By how much the exchange is ahead of the store's clock as it is now, whatever the asker knows.
    ahead_ms = ask.exchange_ms - now_ms if ask.exchange_ms else ask.offset_ms
    for window in ask.windows:
        use = uses.get(window.limit)
        known, is_carried = _present(window, use, (now_ms, ahead_ms), forgot)
        index, used = known.number, known.used
        ends_ms = (index + 1) * window.period_ms - ahead_ms
        opens_ms = ends_ms - window.period_ms + ask.opening_ms
        if used + window.need > window.amount or at_ms >= ends_ms - ask.closing_ms:
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
        # What the exchange told is kept; what was asked for is not.
        needed = bool(ask.paces) or any(window.need for window in ask.windows)
        refusal = LeaseReply(False, now_ms, ready_ms)
        return Budget(era, blocked_ms, budget.refused + needed, uses, forgot), refusal
    uses.update(spent)
    grant = LeaseReply(True, now_ms, at_ms, tuple(blocks))
    return Budget(era, blocked_ms, budget.refused, uses, forgot), grant


def unblocked(budget: Budget, until_ms: int) -> Budget | None:
    """A budget without the stop that ends at this instant; None if it has another, or none."""
    if not until_ms or budget.blocked_until_ms != until_ms:
        return None
    return replace(budget, blocked_until_ms=0)


def whole_block(ask: LeaseRequest, use: Use, now_ms: int) -> LeaseReply | None:
    """All that is wanted of the one window asked for, if ``lease`` would do no more than count it.

    For an ask of one window, a budget that is not blocked and knows of this use.
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
    if window.seen_in == index and window.seen > used:
        return None
    tokens = window.want if window.want > window.need else window.need
    if used + tokens > window.amount:
        return None
    return LeaseReply(True, now_ms, now_ms, (Block(index, tokens),))


def _spoken_for_us(pace: PacedDemand, use: Use | None, now_ms: int, forgot: bool) -> int:
    # An instant is handed out one period ahead at most: what lies further off was written by a
    # clock that has gone back since.
    unit_us = -(-pace.period_ms * 1000 // pace.amount)
    furthest_us = (now_ms + pace.period_ms) * 1000 + pace.burst * unit_us
    if use is None:
        return furthest_us if forgot else now_ms * 1000
    return min(max(use[0], now_ms * 1000), furthest_us)


def _present(
    window: WindowDemand, use: Use | None, now: tuple[int, int], forgot: bool
) -> tuple[WindowUse, bool]:
    """The window to take from; and whether it counts what those took who contradict the asker."""
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
        # The next window may have begun for another process, whose offset is a little greater; one
        # yet later was written by a clock that has gone back since.
        if known.number > present + 1:
            found = new._replace(used=known.used)
        elif known.number == present - 1:
            found = new._replace(before=known.used, expected=known.next_expected())
        else:
            found = known if known.number >= present else new
    if window.seen_in == found.number and window.seen > found.used:
        since_ms = max(1, now_ms + ahead_ms - found.number * window.period_ms)
        foreign = found.foreign + window.seen - found.used
        most = foreign * _MOST_STRETCH
        projected = min(most, max(foreign, foreign * window.period_ms // since_ms))
        found = found._replace(used=window.seen, foreign=foreign, projected=projected)
    return found, is_carried


def most_slip_ms(period_ms: int) -> int:
    """How far apart askers may put the end of a window without contradicting each other."""
    return _SLIP_MS if period_ms > 2 * _SLIP_MS else period_ms // 2


def _slips(window: WindowDemand, index: int, ahead_ms: int, ends_ms: int) -> bool:
    put_ms = (index + 1) * window.period_ms - ahead_ms
    return abs(put_ms - ends_ms) > most_slip_ms(window.period_ms)


def _contradicted(
    window: WindowDemand, known: WindowUse, new: WindowUse, now_ms: int
) -> tuple[WindowUse, bool]:
    if known.number == new.number:
        # The same one. Who had an answer in it knows when it ends, and so does everybody if the
        # store's clock was set by more than its length. Else it may last until the later end.
        is_sure = window.seen_in == known.number
        is_sure = is_sure or abs(known.ends_ms - new.ends_ms) >= window.period_ms
        ends_ms = new.ends_ms if is_sure else max(known.ends_ms, new.ends_ms)
        return known._replace(ends_ms=ends_ms), False
    begun_ms, begins_ms = known.ends_ms - window.period_ms, new.ends_ms - window.period_ms
    if now_ms >= begun_ms - _SLIP_MS and begins_ms < known.ends_ms:
        # By the store's clock the asker's window overlaps the one that was taken from.
        recent = known.before if now_ms < begun_ms + _NOTICED_MS else 0
        return new._replace(used=known.used + recent), True
    # That was long ago, or the store's clock was set back and the asker may be right.
    if new.number == known.number + 1:
        return new._replace(before=known.used), False
    return new._replace(used=known.used if new.number == known.number - 1 else 0), False


def _without_old(uses: dict[str, Use], now_ms: int) -> dict[str, Use]:
    """Only those that still count: limits that each market has for itself are many."""
    return {name: use for name, use in uses.items() if _counts(use, now_ms)}


def _counts(use: Use, now_ms: int) -> bool:
    if len(use) < _WINDOW_USE:
        return use[0] > now_ms * 1000 or bool(use[1])
    # Two periods, reckoned from how many have passed since the epoch.
    return use[3] + 2 * (use[3] // (use[0] + 1) + 1) > now_ms
