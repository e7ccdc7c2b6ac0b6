"""Budgets: the rule by which a fleet shares an exchange's limits.

A budget is what is known of an exchange's limits: how much was taken of each, and whether the
exchange said stop. A process asks for capacity of several limits at once and gets all of it or
none. Limits that are counted in windows of the exchange's clock give *blocks* of tokens, good in
that window alone; the others are *paced* (GCRA) and give the instant at which to send. ``lease`` is
that rule, pure and in whole numbers. A backend carries it out in one atomic statement on its own
clock, and the contract suite holds it to this one.

Time that cannot have passed, and a memory that was lost, never make room: where the clock went
back, or the store may have forgotten what it granted, everything counts as taken.

Most asks are for one more block of a window that is known and open. ``whole_block`` tells whether
that is all there is to it; a backend may then count the block and leave the rest of the rule alone.
"""

from msgspec import Struct


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
    uses: dict[str, tuple[int, int]] = {}
    """By limit: (window's index, taken in it), or (µs up to which it is spoken for, 0)."""
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
    uses, spent, blocks = {} if lost else dict(budget.uses), {}, []
    for pace in ask.paces:
        unit_us = -(-pace.period_ms * 1000 // pace.amount)
        spoken_us = _spoken_for_us(pace, uses.get(pace.limit), now_ms, forgot)
        send_ms = -(-(spoken_us + (pace.need - pace.burst) * unit_us) // 1000)
        at_ms, ready_ms = max(at_ms, send_ms), max(ready_ms, send_ms - pace.period_ms)
        uses[pace.limit] = (spoken_us, 0)
        spent[pace.limit] = (spoken_us + pace.need * unit_us, 0)
    for window in ask.windows:
        index, used = _present(window, uses.get(window.limit), now_ms + ask.offset_ms, forgot)
        ends_ms = (index + 1) * window.period_ms - ask.offset_ms
        opens_ms = ends_ms - window.period_ms + ask.opening_ms
        if used + window.need > window.amount or at_ms >= ends_ms - ask.closing_ms:
            ready_ms = max(ready_ms, ends_ms + ask.opening_ms)
        elif at_ms < opens_ms:
            ready_ms = max(ready_ms, opens_ms)
        left = window.amount - used
        tokens = window.want if window.want < left else left
        tokens = tokens if tokens > window.need else window.need
        uses[window.limit] = (index, used)
        spent[window.limit] = (index, used + tokens)
        blocks.append(Block(index, tokens))
    if ready_ms > now_ms:
        # What the exchange told is kept; what was asked for is not.
        needed = bool(ask.paces) or any(window.need for window in ask.windows)
        refusal = Grant(False, now_ms, ready_ms)
        return Budget(era, blocked_ms, budget.refused + needed, uses, forgot), refusal
    uses.update(spent)
    grant = Grant(True, now_ms, at_ms, tuple(blocks))
    return Budget(era, blocked_ms, budget.refused, uses, forgot), grant


def whole_block(ask: Ask, use: tuple[int, int], now_ms: int) -> Grant | None:
    """All that is wanted of the one window asked for, if ``lease`` would do no more than count it.

    For an ask of one window, a budget that is not blocked and knows of this use.
    """
    window, (index, used) = ask.windows[0], use
    since_ms = now_ms + ask.offset_ms - index * window.period_ms
    if not ask.opening_ms <= since_ms < window.period_ms - ask.closing_ms:
        return None
    if window.seen_in == index and window.seen > used:
        return None
    tokens = window.want if window.want > window.need else window.need
    if used + tokens > window.amount:
        return None
    return Grant(True, now_ms, now_ms, (Block(index, tokens),))


def _spoken_for_us(pace: Pace, use: tuple[int, int] | None, now_ms: int, forgot: bool) -> int:
    # An instant is handed out one period ahead at most: what lies further off was written by a
    # clock that has gone back since.
    unit_us = -(-pace.period_ms * 1000 // pace.amount)
    furthest_us = (now_ms + pace.period_ms) * 1000 + pace.burst * unit_us
    if use is None:
        return furthest_us if forgot else now_ms * 1000
    return min(max(use[0], now_ms * 1000), furthest_us)


def _present(
    window: Window, use: tuple[int, int] | None, exchange_ms: int, forgot: bool
) -> tuple[int, int]:
    present = exchange_ms // window.period_ms
    index, used = use or (present, window.amount if forgot else 0)
    # The next window may have begun for another process, whose offset is a little greater; one yet
    # later was written by a clock that has gone back since.
    if index > present + 1:
        index, used = present, window.amount
    elif index < present:
        index, used = present, 0
    return index, max(used, window.seen) if window.seen_in == index else used
