"""Reads a file of markets: one or several per line, with comments after ``#``."""

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError

OPTION = "--symbols-file"


@dataclass(frozen=True)
class SymbolSelection:
    """The markets to collect: those on the command line and those in a file."""

    typed: tuple[str, ...]
    file: Path | None

    def names(self) -> list[str]:
        """Return all markets that are named now.

        Raises:
            ConfigError: the file cannot be read or is empty, or no market is named at all.
        """
        named = [*self.typed, *(read_symbols(self.file) if self.file is not None else ())]
        if not named:
            problem = f"no market is given. Name some, give a file with {OPTION}, or set SYMBOLS"
            raise ConfigError("SYMBOLS", problem=problem, origin="the command line")
        return named


def read_symbols(path: Path) -> list[str]:
    """Return the names in a file, in order.

    Raises:
        ConfigError: it cannot be read, or has no names.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            OPTION, problem=f"it cannot be read: {error}", origin=str(path)
        ) from error
    names = [name for line in lines for name in line.partition("#")[0].replace(",", " ").split()]
    if not names:
        # A file that is being written may be empty too, and an empty selection makes no sense.
        raise ConfigError(OPTION, problem="it names no market", origin=str(path))
    return names
