"""``penstock alerts``: what fires, what was resolved, and a test of the webhook."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from msgspec.structs import replace
from tests.stats.test_alerting import ALERT

from penstock.stats.alert_store import take_lease, write_alerts
from penstock.storage.state import open_store

from .conftest import invoke

OVER = replace(ALERT, rule="stale", subject="collect-toy", state="resolved", changed_ms=2)


def stored(folder: Path) -> None:
    async def put() -> None:
        store = await open_store(f"sqlite:{folder / 'state.db'}")
        await take_lease(store, "me")
        await write_alerts(store, [OVER, ALERT])
        await store.close()

    asyncio.run(put())


def test_alerts_are_listed_and_the_exit_code_tells_whether_one_fires(tmp_path: Path) -> None:
    stored(tmp_path)

    fires = invoke("alerts", "--data-dir", str(tmp_path))
    everything = invoke("alerts", "--all", "--json", "--data-dir", str(tmp_path))
    nothing = invoke("alerts", "--data-dir", str(tmp_path / "other"))

    assert [each.returncode for each in (fires, everything, nothing)] == [1, 1, 0]
    [_, row] = fires.stdout.splitlines()
    assert row.split()[:4] == ["firing", "warning", "gaps", "toy/trades"]
    assert row.endswith("<!channel> & more")
    listed = [json.loads(line) for line in everything.stdout.splitlines()]
    assert [each["rule"] for each in listed] == ["gaps", "stale"]
    assert nothing.stdout == "No alert fires.\n"


class Hook(BaseHTTPRequestHandler):
    got: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if self.path.endswith("good") else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_test_message_is_posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = []
        for path in ("good", "canary-4711"):
            address = f"http://127.0.0.1:{server.server_port}/{path}"
            monkeypatch.setenv("PENSTOCK_ALERTS_WEBHOOK", address)
            done.append(invoke("alerts", "--test", "--data-dir", str(tmp_path)))
        server.shutdown()
    monkeypatch.delenv("PENSTOCK_ALERTS_WEBHOOK")
    unset = invoke("alerts", "--test", "--data-dir", str(tmp_path))

    assert [each.returncode for each in (*done, unset)] == [0, 1, 2]
    assert "nothing is wrong" in json.loads(Hook.got[0])["text"]
    assert "answered 404" in done[1].stderr
    assert "canary" not in done[1].stderr + done[1].stdout
    assert "alerts.webhook" in unset.stderr
