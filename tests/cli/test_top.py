"""``penstock top``: the overview in the terminal, and as one document."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console
from tests.monitor.statuses import NOW_MS, activity, seen

from penstock.cli.top_view import draw_overview, history
from penstock.clock import SystemClock
from penstock.monitor.overview import OverviewInputs, overview_of
from penstock.monitor.processes import readings_of
from penstock.monitor.rates import RateSampler
from penstock.runtime.status import ProcessStatus

from .conftest import PENSTOCK, invoke
from .terminal import CTRL_C, terminal
from .test_status import report_stored


def collector(**fields: object) -> ProcessStatus:
    """A collector of another machine that reported just now."""
    now_ms = SystemClock().now_ms()
    status = seen("collect-binance", activity("binance", 1_000, lag_ms=12), **fields).status  # type: ignore[arg-type]
    return replace(status, at_ms=now_ms, last_data_ms=now_ms)


def test_a_folder_without_data_says_how_to_begin(tmp_path: Path) -> None:
    done = invoke("top", "--data-dir", str(tmp_path), "--once")
    assert (done.returncode, "penstock collect" in done.stdout) == (0, True)
    assert not list(tmp_path.iterdir()), "nothing is created"
    done = invoke("top", "--data-dir", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "--data-dir" in done.stderr


def test_json_is_the_document_of_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.top._RATE_S", 0)
    report_stored(tmp_path, collector())
    done = invoke("top", "--data-dir", str(tmp_path), "--json")
    [exchange] = json.loads(done.stdout)["exchanges"]
    assert (exchange["exchange"], exchange["light"], exchange["lag_ms"]) == ("binance", "ok", 12)
    assert done.returncode == 0

    report_stored(tmp_path, collector(state="failed", problems=["the disk is full"]))
    done = invoke("top", "--data-dir", str(tmp_path), "--once")
    assert done.returncode == 1
    assert "the disk is full" in done.stdout


def test_a_store_that_is_away_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database at all, but long enough to be one")
    done = invoke("top", "--data-dir", str(tmp_path), "--json")
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize("height", [8, 12, 60])
def test_the_view_fits_its_terminal(height: int) -> None:
    fleet = [
        seen(f"collect-x{number}", activity(f"x{number}"), problems=["a problem"] * (number % 3))
        for number in range(30)
    ]
    rates = RateSampler()
    rates.observe(readings_of(fleet), NOW_MS)
    shown = overview_of(OverviewInputs(NOW_MS, fleet), rates)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(draw_overview(shown, 100, height))
    lines = captured.get().splitlines()
    assert len(lines) <= height
    assert all(len(line) <= 100 for line in lines)
    # Those that need attention are shown first, or counted.
    assert "x1 " in captured.get() or "20 warning" in captured.get()


def test_history_shows_rates_as_bars() -> None:
    assert history([]) == ""
    assert history([0, 0]) == "▁▁"
    assert history([0, 50, 100]) == "▁▅█"
    assert len(history([1.0] * 500)) == 60


def test_a_terminal_is_redrawn_until_it_is_stopped(tmp_path: Path) -> None:
    report_stored(tmp_path, collector())
    with terminal([*PENSTOCK, "top", "--data-dir", "."], size=(100, 24), folder=tmp_path) as shown:
        shown.until_shown("binance", "50")
        report_stored(tmp_path, collector(problems=["one book is stale"]))
        shown.until_shown("one book is stale")
        shown.type(CTRL_C)
        assert shown.ended() == 0
