"""Saying something without depending on who listens."""

from contextlib import suppress
from typing import TextIO


class Lossy:
    """A text file that loses what cannot be written to it.

    A terminal that was closed, a pipe whose reader died or a full disk must not end a process that
    only wanted to say something.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write, if that is possible."""
        with suppress(OSError, ValueError):
            return self._file.write(text)
        return 0

    def flush(self) -> None:
        """Write what is buffered, if that is possible."""
        with suppress(OSError, ValueError):
            self._file.flush()
