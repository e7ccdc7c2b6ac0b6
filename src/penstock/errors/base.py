"""What every error is, and the words that help to mend one."""

from collections.abc import Iterable
from difflib import get_close_matches


class PenstockError(Exception):
    """Something went wrong that a person can understand and mend."""


class ConfigError(PenstockError):
    """A setting is missing, unknown or wrong."""

    def __init__(self, name: str, *, problem: str, origin: str) -> None:
        self.name, self.problem, self.origin = name, problem, origin
        super().__init__(f"{name} (from {origin}): {problem}")


class MissingExtra(PenstockError):
    """A library is missing that is installed with one of penstock's extras."""

    def __init__(self, library: str, extra: str) -> None:
        self.library, self.extra = library, extra
        super().__init__(f"{library} is not installed. Run: pip install 'penstock[{extra}]'")


class PortInUse(PenstockError):
    """Another program listens on this address already."""

    def __init__(self, host: str, port: int, holder: str | None = None) -> None:
        self.host, self.port, self.holder = host, port, holder
        by = f" by {holder}" if holder else " by another program"
        super().__init__(
            f"{host}:{port} is already in use{by}. Stop it, or choose another port with --port"
            " (--port 0 takes any free one)."
        )


class BusUnreachable(PenstockError):
    """No bus answers there, or it does not know this process's key."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        super().__init__(
            f"No bus answers at {endpoint}. Start one with `penstock bus`, on the same data folder"
            " or with the same bus settings; if one runs, does it know this key?"
        )


def near_matches(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names a person who typed ``word`` probably meant, best first."""
    spellings = {_bare(name): name for name in known}
    return [spellings[key] for key in get_close_matches(_bare(word), spellings, most, 0.6)]


def hint(near: list[str]) -> str:
    """Words that end a message with what was probably meant."""
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _bare(name: str) -> str:
    """A name without case and separators, so that BTC-USD finds btc_usdt."""
    return "".join(c for c in name.lower() if c.isalnum())
