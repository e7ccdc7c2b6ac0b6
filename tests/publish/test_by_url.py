"""Publishers are found by the schemes of their URLs, and checked before anything is opened."""

import sys
from pathlib import Path

import pytest

from penstock.config import Bus, Collect, Publish, Settings
from penstock.errors import ConfigError
from penstock.publish.by_url import prepare_publishers


def settings(folder: Path, *urls: str, bus: Bus | None = None) -> Settings:
    return Settings(
        collect=Collect(data_dir=str(folder)), publish=Publish(urls=urls), bus=bus or Bus()
    )


def names(folder: Path, *urls: str, bus: Bus | None = None) -> list[str]:
    return [each.name for each in prepare_publishers(settings(folder, *urls, bus=bus))]


def test_none_one_or_several(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    assert names(tmp_path, "zeromq:") == ["zeromq"]
    several = names(tmp_path, "zeromq:", "zeromq:ipc:///tmp/penstock-other.sock", "memory:")
    assert several == ["zeromq", "zeromq-2", "memory"]
    assert names(tmp_path, *Publish().urls) == ["zeromq"], "the default is the bus"


def test_a_disabled_bus_has_no_publisher(tmp_path: Path) -> None:
    assert names(tmp_path, "zeromq:", "memory:", bus=Bus(publish="")) == ["memory"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("zeormq:", "Did you mean zeromq:?"),
        ("ZMQ:", "There are: memory: zeromq:"),
        ("", "There are: memory: zeromq:"),
        ("tcp://user:secret@broker:1", "There are: memory: zeromq:"),
        ("memory:here", "has no address"),
        ("zeromq:udp://x", "is no address"),
        ("zeromq:tcp://0.0.0.0:8795", "there are no keys"),
    ],
)
def test_a_wrong_url_is_refused_before_anything_changes(
    tmp_path: Path, url: str, told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        names(tmp_path, "memory:", url)

    assert told in str(refused.value)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_publisher_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "toy-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[penstock.publishers]\ntoy = nowhere_at_all\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    with pytest.raises(ConfigError, match="toy: cannot be loaded: No module named"):
        names(tmp_path, "toy:")
