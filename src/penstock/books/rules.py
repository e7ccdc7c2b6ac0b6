"""How an exchange's books are started and verified."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

BookState = Literal["syncing", "synced", "stale"]
"""Whether a book is valid: not yet, now, or no longer; the reason is stored beside it."""


class Checksum(NamedTuple):
    """How an exchange computes the checksum of a book."""

    levels: int
    """The number of best levels per side that are included."""
    spell: Callable[[str], str]
    """The contribution of a number. A level contributes its price, then its quantity."""
    of: Callable[[str, str], int]
    """The checksum, from the contributions of all bids, best first, and of all asks."""
    of_digits: Callable[[str, str], int] | None = None
    """The same as ``of`` where numbers contribute their digits, without point and leading zeros,
    which a compiled book spells itself; None where they contribute something else."""


@dataclass(frozen=True)
class BookRules:
    """How a book of an exchange is started, and how it is verified."""

    begins: Literal["rest", "stream", "frame"] = "rest"
    """From a snapshot fetched by REST and joined by update ids; from one in the stream, sent again
    after a resubscription; or from every frame, each of which is a whole book."""
    depth: int | None = None
    """Levels per side in the stream, where levels that drop out of them are not reported."""
    checksum: Checksum | None = None
    """The checksum in every change, of the book after it; only with a ``depth``."""
    fetched_levels: int | None = None
    """The most levels per side of a book fetched by REST, however many are requested."""
    fetched_decimals: int | None = None
    """Decimals to which quantities of REST books are rounded; None if they are not."""

    @property
    def numbered(self) -> bool:
        """Whether updates have ids."""
        return self.begins == "rest"

    @property
    def shows_loss(self) -> bool:
        """Whether the messages after a lost change show that it was lost."""
        return self.begins != "stream" or self.checksum is not None
