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

# Askers whose windows end so far apart by the store's clock contradict each other.
_SLIP_MS = 1_000
# A clock that was set is noticed within so long of the next request: what was taken in the window
# before may count in the present one too if that began later.
_NOTICED_MS = 30_000
# With more limits than this, those are dropped of which nothing counts any more.
_MANY = 64

Use = tuple[int, ...]
"""What is known of one limit: (window's index, taken in it, taken in the one before, when it ends
by the store's clock), or (µs up to which it is spoken for, 0)."""


class Window(Struct, frozen=True, array_like=True, gc=False):
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


class Pace(Struct, frozen=True, array_like=True, gc=False):
    """What to take of a limit that is kept by the distance between requests."""

    limit: str
    amount: int
    """So much per period, evenly …"""
    period_ms: int
    burst: int
    """… and so much at once: no period ever sees more than ``amount + burst``."""
    need: int = 1


class Ask(Struct, frozen=True, array_like=True):
    """A request for capacity, with what the asker knows."""

    windows: tuple[Window, ...] = ()
    paces: tuple[Pace, ...] = ()
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


class Grant(Struct, frozen=True, array_like=True):
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


def lease(budget: Budget, ask: Ask, now_ms: int, era: str = "") -> tuple[Budget, Grant]:
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
        found = _present(window, use, (now_ms, ahead_ms), forgot)
        index, used, before, is_carried, told_ms = found
        ends_ms = (index + 1) * window.period_ms - ahead_ms
        opens_ms = ends_ms - window.period_ms + ask.opening_ms
        if used + window.need > window.amount or at_ms >= ends_ms - ask.closing_ms:
            ready_ms = max(ready_ms, ends_ms + ask.opening_ms)
        elif at_ms < opens_ms:
            ready_ms = max(ready_ms, opens_ms)
        left = window.amount - used
        tokens = window.want if window.want < left else left
        tokens = tokens if tokens > window.need else window.need
        told_ms = told_ms or ends_ms
        if not is_carried:
            uses[window.limit] = (index, used, before, told_ms)
        spent[window.limit] = (index, used + tokens, before, told_ms)
        blocks.append(Block(index, tokens))
    if ready_ms > now_ms:
        # What the exchange told is kept; what was asked for is not.
        needed = bool(ask.paces) or any(window.need for window in ask.windows)
        refusal = Grant(False, now_ms, ready_ms)
        return Budget(era, blocked_ms, budget.refused + needed, uses, forgot), refusal
    uses.update(spent)
    grant = Grant(True, now_ms, at_ms, tuple(blocks))
    return Budget(era, blocked_ms, budget.refused, uses, forgot), grant


def whole_block(ask: Ask, use: Use, now_ms: int) -> Grant | None:
    """All that is wanted of the one window asked for, if ``lease`` would do no more than count it.

    For an ask of one window, a budget that is not blocked and knows of this use.
    """
    if len(use) < _WINDOW_USE:
        return None
    window, (index, used, _, ends_ms) = ask.windows[0], use
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
    return Grant(True, now_ms, now_ms, (Block(index, tokens),))


def _spoken_for_us(pace: Pace, use: Use | None, now_ms: int, forgot: bool) -> int:
    # An instant is handed out one period ahead at most: what lies further off was written by a
    # clock that has gone back since.
    unit_us = -(-pace.period_ms * 1000 // pace.amount)
    furthest_us = (now_ms + pace.period_ms) * 1000 + pace.burst * unit_us
    if use is None:
        return furthest_us if forgot else now_ms * 1000
    return min(max(use[0], now_ms * 1000), furthest_us)


class _Present(NamedTuple):
    """The window to take from."""

    number: int
    used: int
    before: int
    """Used in the one before."""
    is_carried: bool = False
    """Whether this counts what others took who contradict the asker."""
    ends_ms: int = 0
    """As others told before; 0 if nobody did, or the asker contradicts them."""


def _present(window: Window, use: Use | None, now: tuple[int, int], forgot: bool) -> _Present:
    now_ms, ahead_ms = now
    present = (now_ms + ahead_ms) // window.period_ms
    if use is None:
        found = _Present(present, window.amount if forgot else 0, 0)
    elif len(use) == _WINDOW_USE and _slips(window, use[0], ahead_ms, use[3]):
        found = _contradicted(window, use, present, now)
    else:
        index, used, before, ends_ms = use if len(use) == _WINDOW_USE else (*use, 0, 0)
        # The next window may have begun for another process, whose offset is a little greater; one
        # yet later was written by a clock that has gone back since.
        if index > present + 1:
            found = _Present(present, used, 0)
        elif index < present:
            found = _Present(present, 0, used if index == present - 1 else 0)
        else:
            found = _Present(index, used, before, ends_ms=ends_ms)
    if window.seen_in == found.number and window.seen > found.used:
        return found._replace(used=window.seen)
    return found


_WINDOW_USE = 4


def most_slip_ms(period_ms: int) -> int:
    """How far apart askers may put the end of a window without contradicting each other."""
    return _SLIP_MS if period_ms > 2 * _SLIP_MS else period_ms // 2


def _slips(window: Window, index: int, ahead_ms: int, ends_ms: int) -> bool:
    put_ms = (index + 1) * window.period_ms - ahead_ms
    return abs(put_ms - ends_ms) > most_slip_ms(window.period_ms)


def _contradicted(window: Window, use: Use, present: int, now: tuple[int, int]) -> _Present:
    (index, used, before, ends_ms), (now_ms, ahead_ms) = use, now
    if index == present:
        return _Present(index, used, before)  # The same one, whenever it ends.
    begun_ms, begins_ms = ends_ms - window.period_ms, present * window.period_ms - ahead_ms
    if now_ms >= begun_ms - _SLIP_MS and begins_ms < ends_ms:
        # By the store's clock the asker's window overlaps the one that was taken from.
        recent = before if now_ms < begun_ms + _NOTICED_MS else 0
        return _Present(present, used + recent, 0, is_carried=True)
    # That was long ago, or the store's clock was set back and the asker may be right.
    if present == index + 1:
        return _Present(present, 0, used)
    return _Present(present, used if present == index - 1 else 0, 0)


def _without_old(uses: dict[str, Use], now_ms: int) -> dict[str, Use]:
    """Only those that still count: limits that each market has for itself are many."""
    return {name: use for name, use in uses.items() if _counts(use, now_ms)}


def _counts(use: Use, now_ms: int) -> bool:
    if len(use) < _WINDOW_USE:
        return use[0] > now_ms * 1000 or bool(use[1])
    # Two periods, reckoned from how many have passed since the epoch.
    return use[3] + 2 * (use[3] // (use[0] + 1) + 1) > now_ms
