"""A request that another client library built."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class RawRequest(NamedTuple):
    """An HTTP request built by another client library; it is sent unchanged."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None
