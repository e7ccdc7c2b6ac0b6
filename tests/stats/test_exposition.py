"""Exposition: a process shows on a port what it counted, until it ends."""

import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.config import Metrics
from penstock.errors import ConfigError, PortInUse
from penstock.exchanges.facts import RequestSent
from penstock.stats.exposition import exposed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_what_was_counted_is_shown_until_the_end(tmp_path: Path) -> None:
    port = free_port()
    with exposed(Metrics(port=port), lambda _: None, tmp_path) as metrics:
        metrics(RequestSent(exchange="x", path="/p", cost=1, status=200, took_ms=1))
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S
        ) as answer:
            text = answer.read().decode()

    assert 'penstock_requests_total{exchange="x",status="200"} 1.0' in text
    assert "python_info" not in text, "the registry is its own"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_taken_port_is_said_with_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Metrics(port=taken.getsockname()[1])
        with (
            pytest.raises(PortInUse, match="by somebody"),
            exposed(settings, lambda _: "somebody", tmp_path),
        ):
            pass


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    settings = Metrics(host="192.0.2.1", port=free_port())
    refused = pytest.raises(ConfigError, match=r"192\.0\.2\.1")
    with refused, exposed(settings, lambda _: None, tmp_path):
        pass


def test_clients_that_only_hold_on_take_no_threads_and_delay_nobody(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as stack, exposed(Metrics(port=port), lambda _: None, tmp_path):
        before = threading.active_count()
        for number in range(600):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            held.sendall(b"GET / HTTP/1.1\r\nX: " if number % 2 else b"")
        for method in ("GET", "HEAD"):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", method=method)
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                assert answer.status == 200

        assert threading.active_count() == before
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
