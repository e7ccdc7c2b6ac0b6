"""What a topic of the live WebSocket is: a document, how it is read, and how often."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from penstock.api.app_state import AppState


@dataclass(frozen=True)
class Topic:
    """A document that is read again while somebody watches it."""

    period_s: float
    read: Callable[[AppState], Awaitable[object]]
    """Returns what ``GET /api/v1/NAME`` responds with."""


@dataclass(frozen=True)
class TopicFamily:
    """Documents of one kind, named by a prefix that ends with ``/`` and by what follows it."""

    period_s: float
    read: Callable[[AppState, str], Awaitable[object]]
    """Returns the document of what follows the prefix, as the viewer sent it."""


Topics = Mapping[str, Topic | TopicFamily]
