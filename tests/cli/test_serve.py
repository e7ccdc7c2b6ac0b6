"""``penstock serve``: an API that says where it listens, and stops when told."""

import http.client
import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

from .conftest import run, started, stopped, urls, wait_until


def ask(method: str, address: str, body: Any = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, method=method)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def test_the_api_is_served_until_told_to_stop(tmp_path: Path, exchange: str) -> None:
    words = ("serve", "--port", "0", "--json")
    with started(*words, folder=tmp_path, environment=urls(exchange)) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        job = {"exchange_id": "binance", "type": "ohlcv_backfill", "symbol": "BTCUSDT"}
        made = ask("POST", f"{address}/api/v1/jobs", {**job, "timeframe": "1h"})
        found = ask("GET", f"{address}/api/v1/jobs")["items"]
        ready = ask("GET", f"{address}/readyz")
        urllib.request.urlopen(f"{address}/", timeout=PATIENCE_S).close()
        listed = run("jobs", "list", "--json", folder=tmp_path)
        code, _, errors = stopped(process)

    assert code == 0, errors
    assert (made["symbol"], found) == ("BTC/USDT", [made])
    assert ready == {"status": "ready"}
    assert json.loads(listed.stdout)["id"] == made["id"], "commands and API share one store"
    lines = [json.loads(line) for line in errors.splitlines()]
    served = [(line["path"], line["status"]) for line in lines if line["event"] == "RequestServed"]
    assert served == [("/api/v1/jobs", 201), ("/api/v1/jobs", 200)], (
        "neither probes nor pages are logged"
    )


def test_clients_that_stay_connected_do_not_keep_it_from_stopping(tmp_path: Path) -> None:
    words = ("serve", "--port", "0", "--json")
    with started(*words, folder=tmp_path, environment={}) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        idle = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        idle.request("GET", "/healthz")
        assert idle.getresponse().read() == b'{"status":"alive"}'
        code, _, errors = stopped(process)
        idle.close()

    assert code == 0, errors


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    token, read_token = "correct-horse-battery", "another-horse-may-look"
    environment = {
        "PENSTOCK_API_TOKEN": token,
        "PENSTOCK_API_READ_TOKEN": read_token,
        "PENSTOCK_LOGGING_FORMAT": "json",
    }
    words = ("serve", "--port", "0", "--json", "--host", "0.0.0.0")
    with started(*words, folder=tmp_path, environment=environment) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        port = address.rpartition(":")[2]
        local = f"http://127.0.0.1:{port}/api/v1/connectors"
        for each in (token, read_token):
            assert ask("GET", local, Authorization=f"Bearer {each}") == {"items": [], "next": None}
        code, out, errors = stopped(process)

    assert code == 0
    shown = out + errors + run("config", folder=tmp_path, **environment).stdout
    assert token not in shown
    assert read_token not in shown


def test_a_taken_port_names_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port), folder=tmp_path)

    assert done.returncode == 75
    assert f"127.0.0.1:{port} is already in use by " in done.stderr
    assert f"(pid {os.getpid()})" in done.stderr


def test_two_servers_do_not_share_a_port_unawares(tmp_path: Path) -> None:
    words = ("serve", "--port", "0", "--json")
    with started(*words, folder=tmp_path, environment={}) as first:
        assert first.stdout is not None
        port = json.loads(first.stdout.readline())["listening"].rpartition(":")[2]
        second = run("serve", "--port", port, folder=tmp_path)

    assert second.returncode == 75
    assert "is already in use" in second.stderr


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['litestar'] = None; from penstock.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "serve"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "pip install 'penstock[api]'" in done.stderr


def test_a_store_of_a_newer_version_is_refused_at_the_start(tmp_path: Path) -> None:
    newer = (
        "import asyncio\n"
        "from penstock.storage.state import open_store\n"
        "from penstock.storage.state.schema import SCHEMA, Table\n"
        "table = Table('things', {'name': 'text'})\n"
        "asyncio.run(open_store('sqlite:penstock-data/state.db', schema=(*SCHEMA, (table,))))\n"
    )
    subprocess.run([sys.executable, "-c", newer], cwd=tmp_path, check=True)

    for words in (["serve", "--port", "0"], ["jobs", "list"]):
        done = run(*words, folder=tmp_path)
        assert done.returncode == 2
        assert "Upgrade penstock" in done.stderr


def test_a_worker_shows_what_it_counts_where_a_port_is_set(tmp_path: Path, exchange: str) -> None:
    job = ("jobs", "add", "binance", "markets_refresh")
    assert run(*job, folder=tmp_path, **urls(exchange)).returncode == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def counted() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
                text = answer.read().decode()
        except OSError:
            return False
        return 'penstock_requests_total{exchange="binance",status="200"}' in text

    environment = {**urls(exchange), "PENSTOCK_METRICS_PORT": str(port)}
    with started("work", folder=tmp_path, environment=environment) as process:
        wait_until(counted, process)
        code, _, errors = stopped(process)
    assert code == 0, errors


def test_metrics_of_all_processes_are_served_and_those_of_a_killed_one_end(tmp_path: Path) -> None:
    def up(process: str) -> str:
        with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE_S) as answer:
            text = str(answer.read(), "utf-8")
        found = [
            line for line in text.splitlines() if line.startswith("process_resident_memory_bytes{")
        ]
        is_there = any(f'process="{process}"' in line for line in found)
        [line] = [
            line
            for line in text.splitlines()
            if line.startswith("penstock_process_scraped{") and f'process="{process}"' in line
        ] or [""]
        assert is_there == line.endswith(" 1.0")
        assert text.count("# TYPE process_resident_memory_bytes") <= 1
        return line[-3:]

    with (
        started("serve", "--port", "0", "--json", folder=tmp_path, environment={}) as server,
        started("bus", folder=tmp_path, environment={}) as bus,
    ):
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["listening"]
        wait_until(lambda: up("bus") == "1.0", bus)
        bus.kill()
        bus.wait()
        wait_until(lambda: up("bus") == "0.0", server)
