"""Held tokens are those that a process has leased and not spent yet.

Tokens belong to one window of the exchange and expire with it. How many to lease at once is a
trade-off: large blocks reduce the load on the store's row, small ones leave few unused tokens in a
process that becomes idle. So a block covers the current demand, up to a share of the window, or a
little more ahead: that part doubles while a process returns for more in the same window. Both
shrink with the remaining time and capacity.
"""

from dataclasses import dataclass

from penstock.throttle.gate import Limit

# Shorter windows end before a block pays off: no more is leased than waiting requests need.
BLOCKS_FROM_MS = 10_000
# The largest shares of a window that one process leases at once: for waiting requests, and ahead.
_BLOCK_SHARE, _AHEAD_SHARE = 0.075, 0.025
# The rest of a window is leased in ever smaller parts, so that no process holds it unused.
_LAST_PARTS = 8


@dataclass(slots=True)
class _Held:
    window: int
    tokens: int
    block: int
    """The size of the last block."""


class HeldTokens:
    """Tokens by the name of their limit. Only those of the latest window are kept."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def put(self, name: str, window: int, tokens: int) -> None:
        """Add a leased block."""
        held = self._held.get(name)
        if held is None or held.window != window:
            # Also an earlier window: a clock was stepped, and the tokens held so far are void.
            self._held[name] = _Held(window, tokens, tokens)
        else:
            held.tokens, held.block = held.tokens + tokens, tokens or held.block

    def of(self, name: str, window: int) -> int:
        """The tokens held for a window."""
        held = self._held.get(name)
        return held.tokens if held and held.window == window else 0

    def take(self, name: str, window: int, tokens: int) -> None:
        """Spend held tokens."""
        held = self._held.get(name)
        assert tokens <= self.of(name, window), "who spends has looked"
        if held and tokens:
            held.tokens -= tokens

    def give_back(self, name: str, window: int, tokens: int) -> None:
        """Return tokens that were not used; no effect once a later window has begun."""
        held = self._held.get(name)
        if held and held.window == window:
            held.tokens += tokens

    def cap(self, name: str, window: int, most: int) -> int:
        """Reduce the tokens held for a window to at most ``most``; the tokens still held."""
        held = self._held.get(name)
        if held is None or held.window != window:
            return 0
        held.tokens = min(held.tokens, max(0, most))
        return held.tokens

    def drop(self, name: str) -> None:
        """Discard all tokens of this limit."""
        self._held.pop(name, None)

    def block(
        self, limit: Limit, name: str, demand: int, left: tuple[int, float], spare: int = 0
    ) -> int:
        """How much to lease for ``demand``; ``left`` is the window and its remaining share of time.

        What the next request needs is leased in any case. ``spare`` tokens are held beyond what
        waiting requests need: a lease for a narrower limit needs no more of this one.
        """
        window, time_share = left
        if limit.period_ms < BLOCKS_FROM_MS:
            return demand
        held = self._held.get(name)
        grown = 2 * held.block if held and held.window == window else 0
        lasting = limit.amount * time_share
        ahead = min(grown, int(lasting * _AHEAD_SHARE))
        return max(min(demand, int(lasting * _BLOCK_SHARE)), ahead - spare)

    @staticmethod
    def part(left: int) -> int:
        """How much of the remaining capacity one process may lease at once."""
        return max(1, left // _LAST_PARTS)
