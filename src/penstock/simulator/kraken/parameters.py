"""Reading a request's parameters; what an endpoint does not know is ignored."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from penstock.simulator.engine.exchange import Query
from penstock.simulator.kraken import refusals
from penstock.simulator.kraken.instrument import Instrument

SECOND_NS = 1_000_000_000
_LEAST_NANOSECONDS = 10**14  # a smaller number means seconds


class Listed:
    """The pairs of the exchange, by any of their names; nothing exists before its listing."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._all = instruments
        self._by_name: Mapping[str, Instrument] = {
            spelling: each for each in instruments for spelling in each.pair.spellings
        }

    def all(self, as_of_ms: int) -> dict[str, Instrument]:
        """Every pair listed by then, by id."""
        return {each.pair.id: each for each in self._all if each.listed_at_ms <= as_of_ms}

    def one(self, query: Query, as_of_ms: int) -> tuple[str, Instrument]:
        """The pair asked for, and the name to answer under."""
        name = query.get("pair", "")
        if not name:
            raise refusals.invalid()
        return self._find(name, as_of_ms)

    def several(self, query: Query, as_of_ms: int) -> dict[str, Instrument]:
        """The pairs asked for, by the names to answer under; all if none is named."""
        names = query.get("pair", "")
        if not names:
            return self.all(as_of_ms)
        return dict(self._find(name.strip(), as_of_ms) for name in names.split(","))

    def key(self, query: Query) -> str:
        """What limits call the pair asked for: its id, or nothing if there is none."""
        instrument = self._by_name.get(query.get("pair", ""))
        return instrument.pair.id if instrument is not None else ""

    def _find(self, name: str, as_of_ms: int) -> tuple[str, Instrument]:
        instrument = self._by_name.get(name)
        if instrument is None or instrument.listed_at_ms > as_of_ms:
            raise refusals.unknown_pair()
        # Whoever asks with a slash is answered with one; any other name becomes the id.
        return (name if "/" in name else instrument.pair.id), instrument


def number(query: Query, name: str, default: int, allowed: Iterable[int]) -> int:
    """A whole number, one of those allowed."""
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
