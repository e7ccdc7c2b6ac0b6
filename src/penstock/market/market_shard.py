"""The part of an exchange's markets that one of several collectors records.

A market belongs to a shard by a hash of its slug, so adding markets does not move the others, and
every process finds the same one without asking. Not to be confused with a shard of connections
(``streaming.shard``), of which each collector has as many as it needs.
"""

import re
from dataclasses import dataclass
from zlib import crc32

from penstock.errors import ConfigError

MOST_SHARDS = 100
_FORM = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class MarketShard:
    """One of ``count`` shards, numbered from 0."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "MarketShard":
        """Parse ``0/3``: the first of three.

        Raises:
            ConfigError: it is something else, or there is no such shard.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise _wrong(f"{text!r} is not NUMBER/COUNT, such as 0/3 for the first of three")
        number, count = map(int, found.groups())
        if not 1 <= count <= MOST_SHARDS:
            raise _wrong(f"there are 1 to {MOST_SHARDS} shards, not {count}")
        if number >= count:
            raise _wrong(f"{count} shards are numbered from 0 to {count - 1}: there is no {number}")
        return cls(number, count)

    def owns(self, slug: str) -> bool:
        """Whether a market belongs to it."""
        return crc32(slug.encode()) % self.count == self.number


WHOLE = MarketShard(0, 1)
"""All markets of an exchange."""


def _wrong(problem: str) -> ConfigError:
    return ConfigError("--shard", problem=problem, origin="the command line")
