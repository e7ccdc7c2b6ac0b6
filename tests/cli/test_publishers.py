"""A publisher that another package adds, as docs/add-a-publisher.md says; and unknown ones."""

import json
import re
from pathlib import Path

from .conftest import run, urls

ROOT = Path(__file__).parents[2]
WALK = (ROOT / "docs" / "add-a-publisher.md").read_text()


def install(folder: Path) -> None:
    """Put the walk's package where Python finds it, as an installer does."""
    [module] = re.findall(r"```python\n(.*?)```", WALK, re.S)
    [registered] = re.findall(r'```toml\n\[project\.entry-points\."(.*?)"\]\n(.*?)```', WALK, re.S)
    group, points = registered
    described = folder / "lines_publisher-1.0.dist-info"
    described.mkdir(parents=True)
    (folder / "lines_publisher.py").write_text(module)
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: lines-publisher\nVersion: 1.0\n"
    )
    (described / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}")


def test_the_walk_adds_a_publisher_from_outside(tmp_path: Path, exchange: str) -> None:
    install(tmp_path / "site")
    told = {
        **urls(exchange),
        "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path / 'site'}",
        "PENSTOCK_PUBLISH_URLS": f"zeromq:,lines:{tmp_path / 'lines.txt'}",
    }
    words = ("collect", "binance", "btc_usdt", "--channels", "trades", "--seconds", "2", "--json")

    done = run(*words, "--data-dir", "data", folder=tmp_path, **told)

    assert done.returncode == 0, done.stderr
    [stream] = [s for s in json.loads(done.stdout)["streams"] if s["channel"] == "trades"]
    published = (tmp_path / "lines.txt").read_text().splitlines()
    assert stream["records"] > 0
    assert len(published) >= stream["records"]
    [numbers, topics] = [[line.split(" ")[part] for line in published] for part in (1, 0)]
    trades = [int(n) for n, topic in zip(numbers, topics, strict=True) if ".trades." in topic]
    assert trades == list(range(1, stream["records"] + 1))
    assert json.loads(published[0].split(" ", 2)[2])["exchange"] == "binance"


def test_an_unknown_scheme_is_refused_before_anything_changes(tmp_path: Path) -> None:
    install(tmp_path / "site")
    told = {
        "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path / 'site'}",
        "PENSTOCK_PUBLISH_URLS": "lnies:/x",
    }
    for words in (("collect", "binance", "btc_usdt"), ("fetch", "binance"), ("work",)):
        done = run(*words, "--data-dir", "data", folder=tmp_path, **told)
        assert done.returncode == 2
        assert "Did you mean lines:?" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "data").exists()


def test_a_log_on_another_machine_is_refused(tmp_path: Path) -> None:
    told = {"PENSTOCK_STORAGE_LOG_URL": "rocksdb://store-1/srv/data"}
    for words in (("collect", "binance", "btc_usdt"), ("work",), ("log", "stats"), ("gaps",)):
        done = run(*words, "--data-dir", ".", folder=tmp_path, **told)
        assert done.returncode == 2
        assert "is a folder of another machine, store-1" in done.stderr
        assert list(tmp_path.iterdir()) == []
