"""Which daemon collects which symbol. Pure: daemons with the same view make the same choice.

Rendezvous hashing: every daemon has a weight for every symbol, and the one with the greatest weight
collects it. When a daemon goes, only its symbols move; when one comes, only those that it gets.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from msgspec import Struct

from penstock.tickers.model import TickerSymbol


class Member(Struct, frozen=True, omit_defaults=True):
    """A daemon that shares symbols with others."""

    id: str
    exchanges: tuple[str, ...] | None = None
    """It collects from these only; None: from all."""

    def serves(self, exchange: str) -> bool:
        """Whether it collects from an exchange."""
        return self.exchanges is None or exchange in self.exchanges


def owner_of(symbol: TickerSymbol, members: Iterable[Member]) -> str | None:
    """The id of the daemon that collects a symbol; None if none serves its exchange."""
    key = symbol.key
    return max(
        (member.id for member in members if member.serves(symbol.exchange)),
        key=lambda member_id: (_weight(member_id, key), member_id),
        default=None,
    )


def share_of(
    member_id: str, symbols: Iterable[TickerSymbol], members: Sequence[Member]
) -> list[TickerSymbol]:
    """The symbols that one of the daemons collects, in the given order."""
    return [symbol for symbol in symbols if owner_of(symbol, members) == member_id]


def _weight(member_id: str, key: str) -> bytes:
    return blake2b(f"{member_id}\0{key}".encode(), digest_size=8).digest()
