"""``penstock stats``: sizes, growth, and what is not there."""

import json
from contextlib import closing
from pathlib import Path

from tests.events import trade

from penstock.storage.log import open_log

from .conftest import invoke


def test_a_folder_without_a_keeper_is_measured(tmp_path: Path) -> None:
    with closing(open_log(f"rocksdb:{tmp_path}").writer("collect-toy")) as writer:
        writer.append([trade(number) for number in range(100)])

    drawn = invoke("stats", "--data-dir", str(tmp_path), "--symbols")
    said = invoke("stats", "--data-dir", str(tmp_path), "--json")

    assert (drawn.returncode, said.returncode) == (0, 0)
    assert "growth not known yet" in drawn.stdout
    assert "log/collect-toy/toy/trades/btc_usdt" in drawn.stdout
    assert "btc_usdt" not in invoke("stats", "--data-dir", str(tmp_path)).stdout
    [found] = map(json.loads, said.stdout.splitlines())
    sizes = {each["directory"]: each["size_bytes"] for each in found["directories"]}
    assert sizes["log/collect-toy"] == sizes["log/collect-toy/toy/trades/btc_usdt"] > 0
    assert not (tmp_path / "state.db").exists(), "nothing is created"


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = invoke("stats", "--data-dir", str(tmp_path / "typo"))

    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no folder" in done.stderr
