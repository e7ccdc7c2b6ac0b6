"""Every error penstock raises on purpose.

PenstockError
├── ConfigError            a setting is missing, unknown or wrong: the operator can fix it
├── UnknownExchange        there is no folder of that name
├── UnknownSymbol          nobody lists it under that name: fail at start, not at run
├── MalformedSymbol        not a spelling of any symbol: no exchange needs to be asked
├── UnknownInterval        not a candle length anybody here knows
├── MalformedLevels        price levels that are not pairs of plain decimal numbers
├── NotOurRecord           stored or received bytes that are not a record this version can read
└── PortInUse              another program listens there already

A message says what happened and what to do about it. Catch the widest class whose remedy is yours;
nothing else is caught.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PenstockError(Exception):
    """Something went wrong that a person can understand and mend."""


class ConfigError(PenstockError):
    """A setting is missing, unknown or wrong."""

    def __init__(self, name: str, *, problem: str, origin: str) -> None:
        self.name, self.problem, self.origin = name, problem, origin
        super().__init__(f"{name} (from {origin}): {problem}")


class UnknownExchange(PenstockError):
    """There is no exchange of that name here."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"There is no exchange {name!r} here. There are: {' '.join(known)}.")


class UnknownSymbol(PenstockError):
    """Nobody lists this symbol."""

    def __init__(self, exchange: str, symbol: str, known: Iterable[str] = ()) -> None:
        self.exchange, self.symbol = exchange, symbol
        self.near = near_matches(symbol, known)
        hint = f" Did you mean {' or '.join(self.near)}?" if self.near else ""
        super().__init__(f"{exchange} does not list {symbol!r}.{hint}")


class MalformedSymbol(PenstockError):
    """Not a spelling of any symbol."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is not a symbol: {problem}. Write btc_usdt or BTC/USDT.")


class UnknownInterval(PenstockError):
    """Not a candle length anybody here knows."""

    def __init__(self, text: str, known: Iterable[str]) -> None:
        self.text = text
        super().__init__(f"{text!r} is not a candle interval. Use one of: {' '.join(known)}.")


class MalformedLevels(PenstockError):
    """Price levels that are not pairs of plain decimal numbers."""


class NotOurRecord(PenstockError):
    """Bytes that are not a record this version can read."""


class PortInUse(PenstockError):
    """Another program listens on this address already."""

    def __init__(self, host: str, port: int, holder: str | None = None) -> None:
        self.host, self.port, self.holder = host, port, holder
        by = f" by {holder}" if holder else " by another program"
        super().__init__(
            f"{host}:{port} is already in use{by}. Stop it, or choose another port with --port"
            " (--port 0 takes any free one)."
        )


def near_matches(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names a person who typed ``word`` probably meant, best first."""
    spellings = {_bare(name): name for name in known}
    found = get_close_matches(_bare(word), spellings, n=most, cutoff=0.6)
    return [spellings[key] for key in found]


def _bare(name: str) -> str:
    """A name without case and separators, so that BTC-USD finds btc_usdt."""
    return "".join(c for c in name.lower() if c.isalnum())
