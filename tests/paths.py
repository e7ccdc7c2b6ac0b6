"""Runs a module's tests on both paths: import ``both_paths`` into it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock import compiled

PARTS = (
    *("Appender", "Book", "Encoder", "Gatherer", "Incoming", "Latest", "Packer", "PlainFrames"),
    *("Reader", "Relay", "Updater", "decimals"),
)


@contextmanager
def in_python() -> Iterator[None]:
    """Let what is made meanwhile be made in Python."""
    parts = {name: getattr(compiled, name) for name in PARTS}
    for name in PARTS:
        setattr(compiled, name, None)
    try:
        yield
    finally:
        for name, part in parts.items():
            setattr(compiled, name, part)


# Of modules, because Hypothesis allows no fixture that should be made for each of its examples.
@pytest.fixture(scope="module", autouse=True, params=["python", "compiled"])
def both_paths(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test runs once on each path."""
    if request.param == "python":
        with in_python():
            yield
    else:
        if compiled.Reader is None:
            pytest.skip(f"no compiled path: {compiled.WHY_NOT}")
        yield
