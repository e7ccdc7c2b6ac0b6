"""The command line, run as a user runs it: as a process."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PENSTOCK, invoke, run, started


def test_a_demo_with_faults_fills_all_that_it_missed(tmp_path: Path) -> None:
    faults = "drop=0.05,cut=3s,malformed=0.05,duplicate=0.05,reorder=0.05"
    done = run("demo", "--seconds", "8", "--json", "--faults", faults, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout.splitlines()[-1])
    assert findings["books_checked"] > 3
    for wrong in (
        "trades_missing",
        "gaps_open",
        "gaps_unlisted",
        "gaps_untrue",
        "trades_duplicated",
        "trades_wrong",
        "book_mismatches",
    ):
        assert findings[wrong] == 0, wrong


def test_sim_says_where_it_listens_and_stops_when_told(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PENSTOCK, "sim", "--port", "0", "--json", "--symbols", "1inch_usdt"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()

    assert process.returncode == 0
    assert first["listening"].startswith("http://127.0.0.1:")
    assert json.loads(rest)["clients"] == 0


def test_a_taken_port_names_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("sim", "--port", str(port), "--symbols", "1inch_usdt", folder=tmp_path)

    assert done.returncode == 2
    assert f"127.0.0.1:{port} is already in use by " in done.stderr
    assert f"(pid {os.getpid()})" in done.stderr
    assert "--port" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sim", "--symbols", "btc_usd"], "Did you mean btc_usdt"),
        (["sim", "--faults", "dorp=0.1"], "Did you mean drop"),
        (["sim", "--faults", "drop=2"], "a rate from 0 to 1"),
        (["sim", "--port", "70000"], "simulator.port (from command line --port): 70000"),
        (["sim", "nowhere"], "Exchange 'nowhere' is not supported"),
        (["--config", "absent.toml", "config"], "absent.toml"),
    ],
)
def test_bad_input_is_answered_in_one_line_before_anything_starts(
    tmp_path: Path, words: list[str], says: str
) -> None:
    done = run(*words, folder=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_config_tells_values_and_origins(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[simulator]\nseed = 5\n")
    done = run("config", "--json", folder=tmp_path, PENSTOCK_SIMULATOR_PORT="9000")

    shown = json.loads(done.stdout)
    assert shown["simulator.seed"] == {"value": 5, "origin": "penstock.toml"}
    assert shown["simulator.port"] == {
        "value": 9000,
        "origin": "environment PENSTOCK_SIMULATOR_PORT",
    }
    assert shown["simulator.host"]["origin"] == "default"


def test_a_setting_under_its_old_name_works_and_is_warned_of_once(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[jobs]\nturn = 5\n")
    done = run("config", "--json", folder=tmp_path, PENSTOCK_STATE_PATIENCE="3")

    shown = json.loads(done.stdout)
    assert (shown["jobs.time_slice"]["value"], shown["state.timeout"]["value"]) == (5, 3)
    assert [json.loads(line)["level"] for line in done.stderr.splitlines()] == ["warning"] * 2
    assert done.stderr.count("is now jobs.time_slice") == 1
    assert done.stderr.count("is now state.timeout") == 1


def test_config_is_readable_without_json(tmp_path: Path) -> None:
    done = run("config", folder=tmp_path)

    assert done.returncode == 0
    assert "simulator.symbols" in done.stdout
    assert "trades,book_deltas,tickers" in done.stdout


def test_an_unknown_variable_is_named_with_near_matches(tmp_path: Path) -> None:
    done = run("config", folder=tmp_path, PENSTOCK_SIMULATOR_PROT="1")

    assert done.returncode == 2
    assert "PENSTOCK_SIMULATOR_PROT" in done.stderr
    assert "Did you mean PENSTOCK_SIMULATOR_PORT" in done.stderr


@pytest.mark.parametrize("words", [[], ["demo"], ["sim"], ["config"]])
def test_help_has_an_example(tmp_path: Path, words: list[str]) -> None:
    done = run(*words, "--help", folder=tmp_path)

    assert done.returncode == 0
    assert not words or "Example: " in done.stdout


def test_help_shows_tables_exchanges_and_defaults() -> None:
    plan, collecting = invoke("apply", "--help").stdout, invoke("collect", "--help").stdout

    assert "[connectors.NAME] tables" in plan
    assert "binance, coinbase, kraken, upbit, ccxt:NAME" in collecting
    assert "penstock-data" in collecting
    assert "trades,book_deltas,tickers" in collecting
    assert "--slot" in collecting
    assert "BTC-USDT" in collecting


def test_completion_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else it is asked which shell this runs in, and there may be none.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = run("--show-completion", "bash", folder=tmp_path)

    assert done.returncode == 0
    assert "penstock" in done.stdout


def test_it_has_as_many_files_open_as_the_system_lets_it_have(tmp_path: Path) -> None:
    limits = Path("/proc/self/limits")
    if not limits.exists():
        pytest.skip("this system does not tell what a process may do")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    def allow_few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))

    words = ("sim", "--port", "0", "--json", "--symbols", "1inch_usdt")
    with started(*words, folder=tmp_path, environment={}, before=allow_few) as process:
        assert process.stdout is not None
        process.stdout.readline()
        told = Path(f"/proc/{process.pid}/limits").read_text()

    (line,) = (line for line in told.splitlines() if line.startswith("Max open files"))
    assert line.split()[3] == line.split()[4]


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("--version", "aiohttp attr pygments rich.traceback rocksdict zmq litestar"),
        ("config --help", "aiohttp rocksdict zmq litestar"),
        ("jobs list --help", "aiohttp rocksdict zmq litestar"),
        ("connectors list --help", "aiohttp rocksdict zmq litestar"),
        ("markets --help", "aiohttp rocksdict zmq litestar"),
        ("stats --help", "aiohttp rocksdict litestar"),
    ],
)
def test_a_command_imports_what_it_uses_and_not_what_others_use(words: str, unused: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['penstock', *{words.split()}]\n"
        "try:\n    runpy.run_module('penstock', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        f"print(*set({unused.split()}) & set(sys.modules), file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ("Usage" if "--help" in words else "penstock 0.") in done.stdout
    assert done.stderr.strip() == ""
