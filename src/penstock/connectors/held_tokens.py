"""Held tokens: those a process has leased and not spent yet.

Tokens belong to one window of the exchange and die with it. How many to lease at once is a
trade-off: large blocks keep the store's row cold, small ones leave little behind in a process that
falls silent. So a block is what is wanted now, up to a part of the window, and a little ahead:
that doubles while a process comes back for more in the same window. Both shrink again with the
time and the capacity that are left.
"""

from dataclasses import dataclass

from penstock.throttle.gate import Limit

# Shorter windows are over before a block pays off: no more is leased than there are waiters.
BLOCKS_FROM_MS = 10_000
# The largest part of a window that one process leases at once, for who waits and ahead of them.
_BLOCK_SHARE, _AHEAD_SHARE = 0.075, 0.025
# The last of a window is shared out in ever smaller parts, so that no process sits on it.
_LAST_PARTS = 8


@dataclass(slots=True)
class _Held:
    window: int
    tokens: int
    block: int
    """How large the last block was."""


class HeldTokens:
    """Tokens by the name of their limit. Only those of the latest window are kept."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def put(self, name: str, window: int, tokens: int) -> None:
        """A block was leased."""
        held = self._held.get(name)
        if held is None or held.window != window:
            # Also one that comes before what is held: a clock was set, and that is void.
            self._held[name] = _Held(window, tokens, tokens)
        else:
            held.tokens, held.block = held.tokens + tokens, tokens

    def of(self, name: str, window: int) -> int:
        """What is held of a window."""
        held = self._held.get(name)
        return held.tokens if held and held.window == window else 0

    def take(self, name: str, window: int, tokens: int) -> None:
        """Spend what is held."""
        held = self._held.get(name)
        assert tokens <= self.of(name, window), "who spends has looked"
        if held and tokens:
            held.tokens -= tokens

    def give_back(self, name: str, window: int, tokens: int) -> None:
        """What was taken and never left; too late for a window that another has followed."""
        held = self._held.get(name)
        if held and held.window == window:
            held.tokens += tokens

    def cap(self, name: str, window: int, most: int) -> int:
        """No more than this can be left of a window, whatever is held; what is held then."""
        held = self._held.get(name)
        if held is None or held.window != window:
            return 0
        held.tokens = min(held.tokens, max(0, most))
        return held.tokens

    def drop(self, name: str) -> None:
        """Hold nothing of this limit any more."""
        self._held.pop(name, None)

    def block(self, limit: Limit, name: str, demand: int, left: tuple[int, float]) -> int:
        """How much to lease: ``demand`` is wanted now; ``left`` are window and share of its time.

        As much as is needed is leased in any case.
        """
        window, time_share = left
        if limit.period_ms < BLOCKS_FROM_MS:
            return demand
        held = self._held.get(name)
        grown = 2 * held.block if held and held.window == window else 0
        lasting = limit.amount * time_share
        ahead = min(grown, int(lasting * _AHEAD_SHARE))
        return max(min(demand, int(lasting * _BLOCK_SHARE)), ahead)

    @staticmethod
    def part(left: int) -> int:
        """How much one process may take of what is left."""
        return max(1, left // _LAST_PARTS)
