"""A log is found by its URL, in a folder of this machine."""

from pathlib import Path

import pytest

from penstock.config import Collect, Settings, Storage
from penstock.errors import ConfigError
from penstock.runtime.stores import configured_log
from penstock.storage.log import open_log


def test_by_default_it_is_in_the_data_folder(tmp_path: Path) -> None:
    here = Collect(data_dir=str(tmp_path / "data"))
    assert configured_log(Settings(collect=here)).folder == tmp_path / "data"
    elsewhere = Storage(log_url=f"rocksdb:{tmp_path / 'log'}")
    assert configured_log(Settings(collect=here, storage=elsewhere)).folder == tmp_path / "log"
    memory = Storage(log_url="memory:")
    assert configured_log(Settings(collect=here, storage=memory)).folder is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["rocksdb:/srv/x", "rocksdb:///srv/x", "rocksdb://localhost/srv/x"])
def test_a_folder_of_this_machine(url: str) -> None:
    assert open_log(url).folder == Path("/srv/x")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("rocksdb://store-1/srv/x", "store-1"),
        ("rocksdb://store-1", "store-1"),
        ("rocksdb:store-1:/srv/x", "store-1"),
        ("rocksdb:user@store-1:/srv/x", "user@store-1"),
        ("rocksdb:nfs://store-1/srv/x", "nfs"),
    ],
)
def test_a_folder_of_another_machine_is_refused(url: str, host: str) -> None:
    with pytest.raises(ConfigError, match="is a folder of another machine") as refused:
        open_log(url)
    assert host in str(refused.value)


def test_an_unknown_scheme_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean rocksdb:") as refused:
        open_log(f"rockdb:{tmp_path}")
    assert "rocksdb: or memory:" in str(refused.value)
