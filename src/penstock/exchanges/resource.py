"""A REST resource: its path, cost and category, and the structure of its responses and errors."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from penstock.exchanges.answers import UNREADABLE, decoded
from penstock.exchanges.base import ApiError, Request
from penstock.exchanges.paged import PageCost, PagedEndpoint

R = TypeVar("R")
T = TypeVar("T")
Params = Mapping[str, str | int]
_NO_PARAMS: Params = MappingProxyType({})


class Resource(Generic[R]):
    """Makes requests whose responses have one structure."""

    def __init__(
        self,
        path: str,
        structure: type[R],
        cost: int = 1,
        category: str = "",
        *,
        bare_numbers: bool = False,
    ) -> None:
        """``path`` may have one ``{}``. Bare numbers with a decimal point are decoded as text."""
        self._path, self._cost, self._category = path, cost, category
        hook: Any = str if bare_numbers else None
        self.decode: Callable[[bytes], R] = msgspec.json.Decoder(structure, float_hook=hook).decode

    def paged(
        self,
        channel: str,
        rows: int,
        default_rows: int | None = None,
        *,
        of: str = "{}",
        span_ms: int | None = None,
        kept_days: int | None = None,
    ) -> PagedEndpoint:
        """The resource as pages of up to ``rows`` rows, which all cost the same.

        Without ``default_rows``, a page has as many rows by default.
        """
        costs = (PageCost(rows, self._cost),)
        path = self._path.format(of)
        return PagedEndpoint(channel, path, costs, default_rows or rows, span_ms, kept_days)

    def request(
        self,
        make: Callable[[R, int], T],
        params: Params = _NO_PARAMS,
        *,
        of: str = "",
        cost: int = 0,
        category: str = "",
        dated: Callable[[int], Params] | None = None,
    ) -> Request[T]:
        """A request for the resource, or for the one that belongs to ``of``.

        ``make`` is (response, received_at_ns) → content. It may raise what msgspec raises.
        """

        def read(body: bytes, received_at_ns: int) -> T:
            return decoded(lambda it: make(self.decode(it), received_at_ns), body)

        return Request(
            self._path.format(of),
            cost or self._cost,
            read,
            params,
            category or self._category,
            dated,
        )


def error_reader(
    structure: type[R], make: Callable[[R], ApiError | None]
) -> Callable[[bytes], ApiError | None]:
    """(body) → the error in a response; None if the body is HTML or the like.

    ``make`` returns None for a body of this structure that is not an error.
    """
    decode = msgspec.json.Decoder(structure).decode

    def read(body: bytes) -> ApiError | None:
        try:
            return make(decode(body))
        except UNREADABLE:
            return None

    return read
