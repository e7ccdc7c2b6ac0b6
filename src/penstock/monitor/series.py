"""Finds series in the ledger: by name, in order, page by page."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from penstock.errors import MalformedSymbol
from penstock.market.symbol import Symbol
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import Table

_ORDER = ("exchange", "channel", "symbol")
_PAGE = 500

T = TypeVar("T")

SeriesKey = str
"""The exchange, channel and slug of a series as one text; none of them contains a space."""


class SeriesFilter(NamedTuple):
    """Which series are wanted; None for any."""

    exchange: str | None = None
    channel: str | None = None
    symbol: str | None = None
    """The slug."""

    def conditions(self) -> list[Condition]:
        """The conditions that their documents meet."""
        named = zip(_ORDER, self, strict=True)
        return [Condition(field, "=", value) for field, value in named if value is not None]


def key_of(series: Sequence[str]) -> SeriesKey:
    """The key of a series, with which the next page begins."""
    return " ".join(series)


def readable(convert: Callable[[Document], T], document: Document) -> T | None:
    """What a document means; None if a newer version wrote it and it cannot be read."""
    try:
        return convert(document)
    except msgspec.ValidationError:
        return None


def is_key(text: str) -> bool:
    """Whether a text is the key of a series."""
    return text.count(" ") == 2


def unified(slug: str) -> str:
    """The unified spelling of a slug; the slug itself if it is none."""
    try:
        return Symbol.parse(slug).unified
    except MalformedSymbol:
        return slug


async def read_ordered(
    store: StateStore, table: Table, wanted: SeriesFilter, after: SeriesKey | None = None
) -> AsyncIterator[Document]:
    """The documents of the series after one of them, by series.

    Raises:
        StorageError: the store failed.
    """
    query, last = _later(wanted, after), None
    while page := await store.find(table, query, _ORDER, limit=_PAGE, after=last):
        for document in page:
            yield document
        if len(page) < _PAGE:
            return
        last = page[-1]


def _later(wanted: SeriesFilter, after: SeriesKey | None) -> Query:
    """A query for the series after one of them."""
    where = wanted.conditions()
    if after is None:
        return [where]
    values = after.split(" ")
    return [
        [
            *where,
            *(
                Condition(field, "=", value)
                for field, value in zip(_ORDER[:depth], values, strict=False)
            ),
            Condition(_ORDER[depth], ">", values[depth]),
        ]
        for depth in range(len(values))
    ]
