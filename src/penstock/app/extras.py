"""Reports missing optional libraries, with the extra to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import MissingExtra


@contextmanager
def installed_with(extra: str) -> Iterator[None]:
    """Raise ``MissingExtra`` if a library imported in the block is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "a library", extra) from error
