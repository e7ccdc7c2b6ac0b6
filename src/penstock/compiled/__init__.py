"""The compiled hot path: an optional extension for frames, books, the log and the bus.

The Python code is the specification. The extension handles what is spelled as exchanges usually
spell it, with the same results, and leaves everything else to the Python code. Without the
extension, or with ``PENSTOCK_COMPILED=off`` in the environment, the Python code does all of it.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compiled._hot import Appender as CompiledAppender
    from penstock.compiled._hot import Book as CompiledBook
    from penstock.compiled._hot import Encoder as CompiledEncoder
    from penstock.compiled._hot import Gatherer as CompiledGatherer
    from penstock.compiled._hot import Incoming as CompiledIncoming
    from penstock.compiled._hot import Latest as CompiledLatest
    from penstock.compiled._hot import Levels as CompiledLevels
    from penstock.compiled._hot import Number as CompiledNumber
    from penstock.compiled._hot import Packer as CompiledPacker
    from penstock.compiled._hot import PlainFrames as CompiledPlainFrames
    from penstock.compiled._hot import Reader as CompiledReader
    from penstock.compiled._hot import Relay as CompiledRelay
    from penstock.compiled._hot import Updater as CompiledUpdater

VARIABLE = "PENSTOCK_COMPILED"
"""Not a setting: which path runs is decided when modules are imported."""
OFF = "off"
INTERFACE = 9
"""Rises when the extension has to be called differently; it has the same number."""

Reader: "type[CompiledReader] | None" = None
"""Reads frames by layouts; None, like the others, where the Python code is used."""
Book: "type[CompiledBook] | None" = None
"""The levels of a book."""
Updater: "type[CompiledUpdater] | None" = None
"""Applies deltas to sequenced books."""
Gatherer: "type[CompiledGatherer] | None" = None
"""Gathers records by stream."""
Latest: "type[CompiledLatest] | None" = None
"""The last event of each class and symbol."""
Relay: "type[CompiledRelay] | None" = None
"""Forwards the batches of publishers."""
Incoming: "type[CompiledIncoming] | None" = None
"""Receives from a socket of ZeroMQ."""
Packer: "type[CompiledPacker] | None" = None
"""Packs records into the batches of a publisher."""
PlainFrames: "type[CompiledPlainFrames] | None" = None
"""Takes plain frames out of the bytes of a WebSocket."""
decimals: Callable[[Any], list[Any] | None] | None = None
"""Levels as pairs of Decimal."""
number: Callable[[str], Any] | None = None
"""The Decimal of a text."""
Number: "type[CompiledNumber] | None" = None
"""A property: the Decimal of a field that is a text."""
Levels: "type[CompiledLevels] | None" = None
"""A property: the levels of a field as pairs of Decimal."""
Encoder: "type[CompiledEncoder] | None" = None
"""Encodes the events of one class as records."""
Appender: "type[CompiledAppender] | None" = None
"""Appends events whose keys rise to a slot."""
WHY_NOT = ""
"""Why the Python code is used, if it is."""

if os.environ.get(VARIABLE, "").lower() == OFF:
    WHY_NOT = f"{VARIABLE}={OFF}"
else:
    try:
        from penstock.compiled import _hot
    except ImportError:
        WHY_NOT = "the extension is not built"
    else:
        if _hot.INTERFACE == INTERFACE:
            Book, Reader = _hot.Book, _hot.Reader
            decimals, number = _hot.decimals, _hot.number
            Levels, Number = _hot.Levels, _hot.Number
            Appender, Encoder = _hot.Appender, _hot.Encoder
            Gatherer, Latest, Updater = _hot.Gatherer, _hot.Latest, _hot.Updater
            PlainFrames = _hot.PlainFrames
            Incoming, Packer, Relay = _hot.Incoming, _hot.Packer, _hot.Relay
        else:
            WHY_NOT = "the extension is outdated: run scripts/compile_hot.py"


def path_words() -> str:
    """Which path runs, for people: ``compiled``, or ``Python`` and why."""
    return f"Python ({WHY_NOT})" if WHY_NOT else "compiled"
