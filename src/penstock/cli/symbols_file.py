"""A file that names markets: one or several to a line, anything after ``#`` is a remark."""

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError

OPTION = "--symbols-file"


@dataclass(frozen=True)
class SymbolSelection:
    """What an operator wants collected: what was typed, and what a file names."""

    typed: tuple[str, ...]
    file: Path | None

    def names(self) -> list[str]:
        """Everything that is named at the moment.

        Raises:
            ConfigError: the file cannot be read or names nothing, or nothing was named at all.
        """
        named = [*self.typed, *(read_symbols(self.file) if self.file is not None else ())]
        if not named:
            problem = f"no market is named. Type some, give a file with {OPTION}, or set SYMBOLS"
            raise ConfigError("SYMBOLS", problem=problem, origin="the command line")
        return named


def read_symbols(path: Path) -> list[str]:
    """The names in a file, in order.

    Raises:
        ConfigError: it cannot be read, or names nothing.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            OPTION, problem=f"it cannot be read: {error}", origin=str(path)
        ) from error
    names = [name for line in lines for name in line.partition("#")[0].replace(",", " ").split()]
    if not names:
        # A file that is just being written looks like this too; nobody wants to collect nothing.
        raise ConfigError(OPTION, problem="it names no market", origin=str(path))
    return names
