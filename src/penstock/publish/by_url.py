"""Finds publishers by the schemes of their URLs.

A publisher is a module with a function ``prepare(address, settings)``. It checks the rest of the
URL, raises ``ConfigError`` if it is wrong, and returns a function that opens the publisher of a
slot, or None if it is disabled. Other packages add publishers by an entry point in the group
``penstock.publishers``, named after the scheme (docs/add-a-publisher.md).
"""

from collections import Counter
from importlib import import_module
from importlib.metadata import entry_points
from typing import NamedTuple, Protocol, cast

from penstock.config import Settings
from penstock.errors import ConfigError, mask_urls, near_matches
from penstock.publish import OpenPublisher

GROUP = "penstock.publishers"
_OURS = {"zeromq": "penstock.publish.zeromq", "memory": "penstock.publish.memory"}


class _PublisherModule(Protocol):
    def prepare(self, address: str, settings: Settings) -> OpenPublisher | None: ...


class PreparedPublisher(NamedTuple):
    """A publisher whose URL is checked, and which is not open yet."""

    name: str
    """The scheme of its URL, with a number if there are several."""
    open: OpenPublisher


def prepare_publishers(settings: Settings) -> list[PreparedPublisher]:
    """Check the URLs in ``publish.urls``. Nothing is opened or changed.

    Raises:
        ConfigError: no publisher has one of the schemes, or an address is invalid.
    """
    prepared, seen = list[PreparedPublisher](), Counter[str]()
    for url in settings.publish.urls:
        scheme, separator, address = url.partition(":")
        opening = _module(scheme if separator else url, url).prepare(address, settings)
        if opening is not None:
            seen[scheme] += 1
            name = scheme if seen[scheme] == 1 else f"{scheme}-{seen[scheme]}"
            prepared.append(PreparedPublisher(name, opening))
    return prepared


def _module(scheme: str, url: str) -> _PublisherModule:
    if scheme in _OURS:
        return cast("_PublisherModule", import_module(_OURS[scheme]))
    others = {point.name: point for point in entry_points(group=GROUP)}
    if scheme in others:
        try:
            return cast("_PublisherModule", others[scheme].load())
        except (ImportError, AttributeError) as error:
            raise _wrong(f"the publisher of {scheme}: cannot be loaded: {error}.") from error
    schemes = sorted({*_OURS, *others})
    near = [f"{name}:" for name in near_matches(scheme, schemes)]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    known = " ".join(f"{name}:" for name in schemes)
    raise _wrong(f"no publisher has the scheme of {mask_urls(url)!r}.{meant} There are: {known}")


def _wrong(problem: str) -> ConfigError:
    return ConfigError("publish.urls", problem=problem, origin="settings")
