"""Lakes to test with: in a folder and in an object store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from tests import servers

from penstock.storage.lake import Lake, open_lake

OpenLake = Callable[[], Lake]


@pytest.fixture(autouse=True)
def no_credentials_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests have credentials of their own; none are looked for on the machine."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """An object store with a bucket ``lake``."""
    with servers.s3() as options:
        yield options


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
