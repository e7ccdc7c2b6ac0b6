"""Finds the endpoint of a path.

Most paths are literal and looked up directly. A path template such as
``/products/{product}/book`` has parameters; their values are added to those of the query and
override query parameters of the same name.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.simulator.engine.exchange import Query, Route


class _Template(NamedTuple):
    segments: tuple[str, ...]
    route: Route

    def match(self, segments: tuple[str, ...]) -> Query | None:
        if len(segments) != len(self.segments):
            return None
        named: dict[str, str] = {}
        for wanted, given in zip(self.segments, segments, strict=True):
            if wanted.startswith("{"):
                named[wanted.strip("{}")] = given
            elif wanted != given:
                return None
        return named


class Router:
    """Finds routes by path."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._plain = {path: route for path, route in routes.items() if "{" not in path}
        self._templates = [
            _Template(_segments(path), route) for path, route in routes.items() if "{" in path
        ]

    def find(self, path: str) -> tuple[Route, Query] | None:
        """The route of a path, and the path parameters."""
        route = self._plain.get(path)
        if route is not None:
            return route, {}
        segments = _segments(path)
        for template in self._templates:
            named = template.match(segments)
            if named is not None:
                return template.route, named
        return None


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))
