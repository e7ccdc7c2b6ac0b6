"""The base class of all errors, general errors, and hints for messages."""

from collections.abc import Iterable
from difflib import get_close_matches

from penstock.errors.masking import mask_urls


class PenstockError(Exception):
    """An error that the operator can understand and fix. Passwords in URLs are masked."""

    def __init__(self, *said: object) -> None:
        super().__init__(*(mask_urls(one) if isinstance(one, str) else one for one in said))


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
            " (--port 0 chooses a free one)."
        )


class BusUnreachable(PenstockError):
    """No bus answers there, or it does not accept this process's key."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        super().__init__(
            f"No bus answers at {endpoint}. Start one with `penstock bus`, with the same data"
            " folder or the same bus settings. If one is running, check that it has this"
            " process's public key."
        )


def near_matches(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are most similar to ``word``, best first."""
    spellings = {_bare(name): name for name in known}
    return [spellings[key] for key in get_close_matches(_bare(word), spellings, most, 0.6)]


def hint(near: list[str]) -> str:
    """Return the end of a message that suggests similar names."""
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _bare(name: str) -> str:
    """Return a name without case and separators, so that BTC-USD finds btc_usdt."""
    return "".join(c for c in name.lower() if c.isalnum())
