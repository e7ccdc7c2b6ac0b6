"""rclone with a configuration of its own, and an object store that it serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import servers


@pytest.fixture(autouse=True)
def no_rclone_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests see no remotes of whoever runs them."""
    monkeypatch.setenv("RCLONE_CONFIG", "")


@pytest.fixture(scope="session")
def rclone_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of an object store, and the variables with which rclone knows it as ``store:``."""
    folder = tmp_path_factory.mktemp("store")
    with servers.rclone_s3(folder) as variables:
        yield folder, variables
