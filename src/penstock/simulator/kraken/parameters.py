"""Parses a request's parameters; unknown ones are ignored."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from penstock.simulator.engine.exchange import Query
from penstock.simulator.kraken import refusals
from penstock.simulator.kraken.instrument import Instrument

SECOND_NS = 1_000_000_000
_LEAST_NANOSECONDS = 10**14  # a smaller number means seconds


class Listed:
    """The pairs of the exchange by any of their names; a pair is unknown before its listing."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._all = instruments
        self._by_name: Mapping[str, Instrument] = {
            spelling: each for each in instruments for spelling in each.pair.spellings
        }

    def all(self, as_of_ms: int) -> dict[str, Instrument]:
        """All pairs listed at a time, by id."""
        return {each.pair.id: each for each in self._all if each.listed_at_ms <= as_of_ms}

    def one(self, query: Query, as_of_ms: int) -> tuple[str, Instrument]:
        """The name of the requested pair in the response, and its instrument."""
        name = query.get("pair", "")
        if not name:
            raise refusals.invalid()
        return self._find(name, as_of_ms)

    def several(self, query: Query, as_of_ms: int) -> dict[str, Instrument]:
        """The requested pairs by their names in the response; all if none is given."""
        names = query.get("pair", "")
        if not names:
            return self.all(as_of_ms)
        return dict(self._find(name.strip(), as_of_ms) for name in names.split(","))

    def key(self, query: Query) -> str:
        """The requested pair's key for limits: its id, or empty if there is no such pair."""
        instrument = self._by_name.get(query.get("pair", ""))
        return instrument.pair.id if instrument is not None else ""

    def _find(self, name: str, as_of_ms: int) -> tuple[str, Instrument]:
        instrument = self._by_name.get(name)
        if instrument is None or instrument.listed_at_ms > as_of_ms:
            raise refusals.unknown_pair()
        # A name with a slash is repeated in the response; any other is replaced by the id.
        return (name if "/" in name else instrument.pair.id), instrument


def number(query: Query, name: str, default: int, allowed: Iterable[int]) -> int:
    """The value of a whole number, which must be one of ``allowed``."""
    text = query.get(name, "")
    if not text:
        return default
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if value not in allowed:
        raise refusals.invalid(name)
    return value


def since_ns(query: Query) -> int | None:
    """``since``: nanoseconds, or seconds if it is a small number."""
    text = query.get("since", "")
    if not text:
        return None
    try:
        since = Decimal(text)
    except InvalidOperation:
        raise refusals.invalid("since") from None
    if not since.is_finite() or since < 0 or since >= 10**20:
        raise refusals.invalid("since")
    return int(since if since >= _LEAST_NANOSECONDS else since * SECOND_NS)
