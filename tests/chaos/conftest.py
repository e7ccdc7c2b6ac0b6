"""Everything here is a sample of a longer run: left out of `make test`, run by `make samples`."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and "long" not in item.keywords:
            item.add_marker("sample")
