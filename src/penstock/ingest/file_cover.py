"""How much of a range published files have, and whether they spare requests. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.ingest.published_files import SizedFile
from penstock.market.interval import DAY_MS


class FileCover(NamedTuple):
    """What published files have of a range."""

    files: int
    size: int
    """Of all of them, in bytes."""
    rest: tuple[int, ...]
    """The rows, or places for rows, of each part that no file has."""


def are_files_cheaper(rows: int, length_ms: int, page_size: int) -> bool:
    """Whether a day has more rows than a page, so that its file spares requests.

    ``rows`` are those of a time of ``length_ms``. A file takes one request too, for a comparison.
    """
    return rows * DAY_MS > page_size * length_ms


def cover_of(listed: Iterable[SizedFile], since_ms: int, until_ms: int, rows: int) -> FileCover:
    """What files have of a range in which so many rows are evenly spread."""
    count, size, at_ms, gaps_ms = 0, 0, since_ms, list[int]()
    for file, length in listed:
        count, size = count + 1, size + length
        gaps_ms.append(file.since_ms - at_ms)
        at_ms = file.until_ms
    gaps_ms.append(until_ms - at_ms)
    range_ms = max(1, until_ms - since_ms)
    return FileCover(count, size, tuple(gap * rows // range_ms for gap in gaps_ms if gap > 0))
