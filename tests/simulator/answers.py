"""Answers and openings as a client would have them, whether or not they are made in pieces."""

from collections.abc import Generator

from penstock.simulator.engine.exchange import Asked, Reply, Route, StreamFeed
from penstock.simulator.market.pieces import finished


def answered(route: Route, asked: Asked, as_of_ms: int) -> bytes | Reply:
    """What an endpoint answers. Raises Refused."""
    answer = route.answer(asked, as_of_ms)
    return finished(answer) if isinstance(answer, Generator) else answer


def opened(feed: StreamFeed, at_ms: int) -> list[bytes]:
    """What whoever joins a stream hears first."""
    opening = feed.opening(at_ms) if feed.opening is not None else []
    return finished(opening) if isinstance(opening, Generator) else opening
