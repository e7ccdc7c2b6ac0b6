"""The page from the demo to a plot runs as printed."""

import re
import shlex
import subprocess
from pathlib import Path

import matplotlib
import polars as pl
import pytest
from tests.forked import command
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "notebook.md").read_text()


@pytest.mark.filterwarnings("ignore:data is missing")
def test_five_commands_lead_from_the_demo_to_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    cells = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert 1 + len(cells) == 5
    make, target, arguments = shlex.split(shell)
    assert (make, target) == ("make", "demo")
    words = arguments.removeprefix("ARGS=").replace("--seconds 20", "--seconds 4").split()
    with command(["demo", *words], cwd=tmp_path, stdout=subprocess.DEVNULL) as demo:
        assert demo.wait(PATIENCE_S) == 0

    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names: dict[str, object] = {}
    for cell in cells:
        exec(cell, names)

    trades, candles = names["trades"], names["candles"]
    assert isinstance(trades, pl.DataFrame)
    assert isinstance(candles, pl.DataFrame)
    assert trades.height > 50
    assert candles.height >= 3
    assert (tmp_path / "candles.png").stat().st_size > 5_000
