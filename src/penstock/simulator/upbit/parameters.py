"""Parses a request's parameters: markets, counts, and the various formats of a time."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from penstock.simulator.engine.exchange import Query
from penstock.simulator.upbit import refusals
from penstock.simulator.upbit.instrument import Instrument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[0-9]{1,19}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):?([0-5][0-9]):?([0-5][0-9])")


class Listed:
    """The markets of the exchange by code and time; a market is unknown before its listing."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._by_code: Mapping[str, Instrument] = {each.code: each for each in instruments}

    def all(self, as_of_ms: int) -> list[Instrument]:
        """All markets listed at a time."""
        return [each for each in self._by_code.values() if each.listed_at_ms <= as_of_ms]

    def one(self, query: Query, as_of_ms: int) -> Instrument:
        """The market of the parameter ``market``."""
        return self._find(_given(query, "market"), as_of_ms)

    def several(self, query: Query, as_of_ms: int) -> list[Instrument]:
        """The markets of the parameter ``markets``, in that order, without duplicates."""
        codes = dict.fromkeys(code.strip() for code in _given(query, "markets").split(","))
        return [self._find(code, as_of_ms) for code in codes]

    def quoted_in(self, query: Query, as_of_ms: int) -> list[Instrument]:
        """The markets of the ``quote_currencies``."""
        quotes = {quote.strip() for quote in _given(query, "quote_currencies").split(",")}
        return [each for each in self.all(as_of_ms) if each.market.listing.quote in quotes]

    def _find(self, code: str, as_of_ms: int) -> Instrument:
        found = self._by_code.get(code)
        if found is None or found.listed_at_ms > as_of_ms:
            raise refusals.not_found()
        return found


def count(query: Query, most: int) -> int:
    """The number of rows, by default one."""
    number = whole(query, "count")
    if number is None:
        return 1
    if not 1 <= number <= most:
        raise refusals.invalid("count")
    return number


def whole(query: Query, *names: str) -> int | None:
    """The value of a whole number, under any of its names."""
    for name in names:
        text = query.get(name)
        if text:
            if not _NUMBER.fullmatch(text):
                raise refusals.invalid(name)
            return int(text)
    return None


def instant_ms(query: Query, name: str) -> int | None:
    """Parse a time in ISO 8601, with a T or a space, by default in UTC."""
    text = query.get(name)
    if not text:
        return None
    try:
        # A plus sign that was not URL-encoded arrives as a space.
        at = datetime.fromisoformat(re.sub(r" (\d\d:?\d\d)$", r"+\1", text.strip()))
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise refusals.invalid(name) from None


def clock_ms(query: Query, name: str) -> int | None:
    """Parse a time of day, ``HHmmss`` or ``HH:mm:ss``, into ms since midnight."""
    text = query.get(name)
    if not text:
        return None
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise refusals.invalid(name)
    hours, minutes, seconds = map(int, match.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def _given(query: Query, name: str) -> str:
    value = query.get(name)
    if not value:
        raise refusals.missing()
    return value
