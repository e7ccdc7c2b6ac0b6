"""Redraws a view in place on a terminal."""

import sys
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console, RenderableType

from penstock.cli.fitting import Viewport

_UP, _CLEAR_LINE, _CLEAR_BELOW, _CLEAR_ALL = "\x1b[{}A", "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"


class Painter:
    """Draws each frame over the previous one. The cursor stays on the line below the frame."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines = 0
        """The height of the frame above the cursor."""
        self._size = console.size

    def draw(self, make: Callable[[Viewport], RenderableType], below: str = "") -> None:
        """Draw the next frame, with room left for the text that is written below it."""
        size = self._console.size
        under = sum(max(1, -(-len(line) // size.width)) for line in below.splitlines())
        viewport = Viewport(size.width, max(1, size.height - 1 - under))
        with self._console.capture() as frame:
            self._console.print(make(viewport))
        lines = frame.get().splitlines()[: viewport.height]
        begin = _UP.format(self._lines) + "\r" if self._lines else "\r"
        if self._lines and size != self._size:
            # A resized terminal rewraps the old frame, so its first line is unknown.
            begin = _CLEAR_ALL
        write(begin + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)
        self._lines, self._size = len(lines), size

    def leave(self) -> None:
        """Keep the last frame; other output has been written below it."""
        self._lines = 0


def write(text: str) -> None:
    """Write to stderr; errors are ignored, as the terminal may be closed."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
