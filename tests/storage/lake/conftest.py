"""Lakes to test with: in a folder and in an object store."""

from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import pytest

from penstock.storage.lake import Lake, open_lake

OpenLake = Callable[[], Lake]


@pytest.fixture(params=["folder", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLake:
    """Opens one lake, as many times as asked; each is a writer of its own."""
    if request.param == "folder":
        return lambda: open_lake(str(tmp_path / "lake"))
    options: dict[str, str] = request.getfixturevalue("s3_options")
    url = f"s3://lake/{token_hex(4)}"
    # Whether the store supports several writers has a test of its own, which takes a second.
    return lambda: open_lake(url, options, alone=True)


@pytest.fixture
def lake(opened: OpenLake) -> Lake:
    return opened()
