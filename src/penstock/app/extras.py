"""Parts whose libraries are extras: a missing one is reported with what to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import MissingExtra


@contextmanager
def installed_with(extra: str) -> Iterator[None]:
    """Import what only some processes need, and what is installed apart for that."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "a library", extra) from error
