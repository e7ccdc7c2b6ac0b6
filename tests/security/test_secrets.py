"""A different secret in every setting that may hold one, and none of them is ever shown.

The environment of a process is out of reach: its own user can read it in /proc.
"""

import base64
import contextlib
import json
import logging
import re
import signal
import subprocess
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_args, get_origin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cli.conftest import invoke, started, wait_until
from tests.waiting import PATIENCE_S

from penstock.config import Secret, Sensitive, Settings, environment_name, load, setting_names
from penstock.config.secret import is_secret
from penstock.errors import ConfigError, PenstockError, hide, mask_urls, password_in
from penstock.errors.masking import _Hidden
from penstock.storage.log import open_log
from penstock.telemetry import configure_logging, log_error

MARK = "canary7"
NO_SECRETS = {
    "bus.key_file",  # the name of a file
    "bus.broker_key",  # a public key
    "simulator.coinbase.api_key",  # of an exchange that exists in this machine only
    "simulator.coinbase.api_secret",
    "simulator.coinbase.api_passphrase",
    "storage.log_url",  # the log is a folder
}
"""Settings that sound as if they had secrets."""
NOWHERE = "127.0.0.1:1"
URLS = {
    "state.url": f"postgresql://me:{{}}@{NOWHERE}/x?sslpassword={{}}",
    "live.url": f"redis://me:{{}}@{NOWHERE}/0",
    "storage.lake_url": "s3://me:{}@bucket/lake",
}


@pytest.fixture(autouse=True)
def _hidden_restored() -> Iterator[None]:
    texts, pattern = _Hidden.texts, _Hidden.pattern
    yield
    _Hidden.texts, _Hidden.pattern = texts, pattern


WEBHOOKS = {"alerts.webhook": f"http://{NOWHERE}/{{}}"}
"""Addresses that are secret as a whole."""


def canary(name: str, *, encoded: bool = False) -> str:
    text = f"{MARK}-{name.replace('.', '-').replace('_', '-')}-'q\"p'"
    return base64.b64encode(text.encode()).decode() if encoded else text


def canaries() -> dict[str, str]:
    """Setting → secret. Those of the exchange's key are in base64, as they have to be."""
    names = setting_names(Settings)
    held = {n for n, hint in names.items() if is_secret(hint) or _is_sensitive(hint)}
    return {
        name: canary(name, encoded=name == "exchanges.api_secrets")
        for name in (*held, "publish.urls")
    }


def _is_sensitive(hint: object) -> bool:
    return hint == Sensitive or Sensitive in get_args(hint)


def environment(**but: str) -> dict[str, str]:
    """All of them as variables; without those of ``but``, which are set as said."""
    variables = {}
    for name, secret in canaries().items():
        hint = setting_names(Settings)[name]
        if name == "storage.lake_options":
            value = json.dumps({"aws_secret_access_key": secret, "aws_region": "x"})
        elif name == "publish.urls":
            value = json.dumps([f"nosuch://me:{secret}@{NOWHERE}"])
        elif get_origin(hint) is dict:
            inner = secret if is_secret(hint) else f"http://me:{secret}@{NOWHERE}"
            value = json.dumps({"coinbase": inner})
        else:
            value = (
                WEBHOOKS.get(name, "{}")
                if hint is Secret
                else URLS.get(name, f"http://me:{{}}@{NOWHERE}/x")
            )
            value = value.replace("{}", secret)
        variables[environment_name(name)] = value
    variables |= {
        "PENSTOCK_LOGGING_LEVEL": "debug",
        "PENSTOCK_STATE_TIMEOUT": "0.5",
        "PENSTOCK_LIVE_TIMEOUT": "0.5",
        "PENSTOCK_REQUESTS_ATTEMPTS": "1",
        "PENSTOCK_BACKUP_FOLDER": "backups",
        "PENSTOCK_UP_EXCHANGES": "coinbase",
        "SYMBOLS": "btc_usd",
        "COLUMNS": "4000",
    }
    return {name: value for name, value in (variables | but).items() if value != "-"}


def shown_in(text: str) -> list[str]:
    """The parts of a text around each secret in it."""
    encoded = canary("exchanges.api_secrets", encoded=True)
    return re.findall(f".{{0,80}}(?:{MARK}|{re.escape(encoded)}).{{0,20}}", text)


def test_every_setting_that_may_hold_a_secret_is_declared_so() -> None:
    suspicious = re.compile(r"url|webhook|token|secret|passw|passphrase|_key|key_|credential")
    for name in setting_names(Settings):
        if suspicious.search(name.rpartition(".")[2]):
            assert name in canaries() or name in NO_SECRETS, f"{name}: Secret or Sensitive?"


def test_no_secret_is_in_the_settings_as_text() -> None:
    loaded = load(Settings, environment())

    found = "\n".join(loaded.secrets())
    assert all(secret in found for secret in canaries().values())
    assert not shown_in(repr(loaded.settings.api))
    assert not shown_in(repr(loaded.settings.exchanges.api_keys))


COMMANDS = [
    ["config"], ["config", "--json"], ["config", "show", "--origin"], ["config", "show", "--json"],
    ["status"], ["status", "--json"], ["connectors", "list"], ["jobs", "list"], ["gaps"],
    ["coverage"], ["ticks"], ["symbols", "list"], ["markets", "coinbase"],
    ["log", "streams"], ["ingest", "coinbase", "BTC-USD", "--dry-run"],
    ["ingest", "binance", "BTC-USDT", "--dry-run"], ["up", "--dry-run"], ["backup", "list"],
]  # fmt: skip


@pytest.mark.parametrize("store", ["away", "here"])
@pytest.mark.parametrize("style", ["json", "human"])
def test_no_command_shows_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, style: str
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = {} if store == "away" else {"PENSTOCK_STATE_URL": "-", "PENSTOCK_LIVE_URL": "-"}
    with _logging_restored():
        for name, value in environment(**stores, PENSTOCK_LOGGING_FORMAT=style).items():
            monkeypatch.setenv(name, value)
        for words in COMMANDS:
            done = invoke(*words)
            said = done.stdout + done.stderr
            assert said, words
            assert not shown_in(said), words
    for text in _files(tmp_path):
        assert not shown_in(text)


def test_no_command_of_operations_shows_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A lake that is away would be retried for long.
    stores = ("STATE_URL", "LIVE_URL", "STORAGE_LAKE_URL")
    open_log("rocksdb:penstock-data").writer("collect-coinbase").close()
    with _logging_restored():
        for name, value in environment(**{f"PENSTOCK_{each}": "-" for each in stores}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PENSTOCK_STATE_TIMEOUT", str(PATIENCE_S))
        said = ""
        for words in (["jobs", "list"], ["doctor", "coinbase"], ["stats"], ["alerts", "--test"],
                      ["backup", "run"], ["backup", "list"], ["backup", "sync"]):  # fmt: skip
            done = invoke(*words)
            said += done.stdout + done.stderr
            assert not shown_in(said), words
    assert list(tmp_path.rglob("*.tar.gz")), said
    for text in _files(tmp_path):
        assert not shown_in(text)


@contextlib.contextmanager
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:], root.level = before


@pytest.mark.parametrize("style", ["json", "human"])
def test_no_traceback_shows_a_secret(capsys: pytest.CaptureFixture[str], style: str) -> None:
    hide(load(Settings, environment()).secrets())
    with _logging_restored():
        configure_logging(style)
        for secret in canaries().values():
            try:
                _crash(secret)
            except Exception:
                logging.getLogger("penstock").exception("crashed with %s", secret)
                logging.getLogger("a.driver").warning("login as %r", secret)
                log_error("failed", reason=f"cannot reach postgresql://me:{secret}@db/x")
    said = capsys.readouterr().err

    assert "_crash" in said
    assert not shown_in(said)


@pytest.mark.parametrize("style", ["json", "human"])
def test_a_traceback_has_no_local_variables(capsys: pytest.CaptureFixture[str], style: str) -> None:
    made = "-".join(("made", "of", "parts"))
    with _logging_restored():
        configure_logging(style)
        try:
            raise ValueError(len(made))
        except ValueError:
            logging.getLogger("penstock").exception("crashed")
    said = capsys.readouterr().err

    assert "ValueError" in said
    assert made not in said


def _crash(secret: str) -> None:
    revealed = [secret, {"url": f"redis://me:{secret}@cache"}]  # what rich shows as a local
    try:
        raise ConnectionError(f"password {revealed[0]!r} was rejected")
    except ConnectionError as error:
        raise ValueError(revealed) from error


def test_no_error_of_ours_shows_a_secret() -> None:
    hide(load(Settings, environment()).secrets())
    for secret in canaries().values():
        assert not shown_in(str(PenstockError(f"the driver said: {secret}")))
        assert not shown_in(str(PenstockError(f"Cannot connect: /{secret}")))
        assert not shown_in(str(ConfigError("x", problem=f"{secret} is wrong", origin="y")))


secret_texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=8).filter(
    lambda text: not text.isalpha()
)


@given(secret_texts, st.sampled_from(["plain", "json", "repr"]))
@example('it\'s"both"1', "repr")
def test_a_hidden_text_is_masked_however_it_is_written(text: str, how: str) -> None:
    secret = f"{MARK}{text}"
    _Hidden.texts = frozenset()
    hide([secret])
    written = {"plain": secret, "json": json.dumps({"a": secret}), "repr": repr([secret])}[how]

    assert MARK not in mask_urls(f"before {written} after")


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgresql://me:pa@s/s'w@db:5432/x", "pa@s/s'w"),
        ("redis://:secret@cache", "secret"),
        ("mongodb://a:1,b:2/x", None),
        ("ws://127.0.0.1:8790/ws/a@trade", None),
        ("s3://bucket/lake", None),
        ("sqlite:/data/x@y.db", None),
    ],
)
def test_the_password_in_a_url_is_found(url: str, password: str | None) -> None:
    assert password_in(url) == password


def test_words_are_not_hidden_since_other_words_contain_them() -> None:
    hide(["penstock", "postgres", "short1"])

    assert mask_urls("penstock short1: postgresql://db/x") == "penstock short1: postgresql://db/x"


def test_a_server_shows_no_secret_in_answers_metrics_logs_files_and_the_list_of_processes(
    tmp_path: Path,
) -> None:
    stores = {"PENSTOCK_STATE_URL": "-", "PENSTOCK_LIVE_URL": "-", "PENSTOCK_PUBLISH_URLS": "-"}
    token = canaries()["api.token"]
    words = ("serve", "--port", "0", "--json")
    with started(
        *words, folder=tmp_path, environment=environment(**stores), forked=False
    ) as server:
        lines = _Reader(server)
        address = json.loads(lines.first())["listening"]
        answers = []
        for path in ("/metrics", "/readyz", "/healthz", "/schema/openapi.json", "/api/v1/jobs",
                     "/api/v1/connectors", "/api/v1/processes", "/api/v1/logs", "/api/v1/limits",
                     "/nowhere"):  # fmt: skip
            for credentials in (token, canaries()["api.read_token"], f"wrong {token}", ""):
                answers.append(_ask(f"{address}{path}", credentials))
        for body in (b"{", json.dumps({"exchange_id": "coinbase"}).encode()):
            answers.append(_ask(f"{address}/api/v1/connectors", token, body))
        command_line = Path(f"/proc/{server.pid}/cmdline").read_text()
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        said = lines.all()

    assert [path.name[:6] for path in tmp_path.rglob("logs/*.jsonl")] == ["serve-"]
    assert any(answer.startswith("200") for answer in answers)
    assert any(answer.startswith("401") for answer in answers)
    for text in (*answers, command_line, said, *_files(tmp_path)):
        assert not shown_in(text)


def test_a_collector_with_a_wrong_key_shows_no_secret(tmp_path: Path) -> None:
    stores = {"PENSTOCK_STATE_URL": "-", "PENSTOCK_LIVE_URL": "-", "PENSTOCK_PUBLISH_URLS": "-"}
    with _refusing_exchange() as (address, asked):
        variables = environment(
            **stores,
            PENSTOCK_EXCHANGES_REST_URLS=json.dumps({"coinbase": address}),
            PENSTOCK_EXCHANGES_STREAM_URLS=json.dumps({"coinbase": address}),
        )
        words = ("collect", "coinbase", "btc_usd")
        with started(*words, folder=tmp_path, environment=variables) as collector:
            lines = _Reader(collector)
            # Not for 401, which a time may contain, too.
            lines.wait_for("no such key")
            collector.send_signal(signal.SIGTERM)
            collector.send_signal(signal.SIGTERM)
            said = lines.all()

    assert any(canaries()["exchanges.api_keys"] in str(headers) for headers in asked)
    [kept] = tmp_path.rglob("logs/*.jsonl")
    assert "no such key" in kept.read_text()
    for text in (said, *_files(tmp_path)):
        assert not shown_in(text)


@contextlib.contextmanager
def _refusing_exchange() -> Iterator[tuple[str, list[object]]]:
    """Its address, with a password in it, and the headers of all requests."""
    asked: list[object] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers)
            body = f"no such key: {self.headers['CB-ACCESS-KEY']}".encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://me:{canary('proxy')}@127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


class _Reader:
    """Reads both outputs of a process, so that it never waits."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._out, self._process = process.stdout, process
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._errors.extend, args=[process.stderr])
        self._thread.start()

    def first(self) -> str:
        return self._out.readline()

    def wait_for(self, text: str) -> None:
        wait_until(lambda: any(text in line for line in self._errors), self._process)

    def all(self) -> str:
        self._thread.join()
        return self._out.read() + "".join(self._errors)


def _ask(url: str, token: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request) as answer:
            return f"{answer.status}\n{answer.headers}\n{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}\n{error.headers}\n{error.read().decode()}"


def _files(folder: Path) -> Iterator[str]:
    """All files that were written, and those in backups."""
    for path in folder.rglob("*"):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    if content := archive.extractfile(member):
                        yield content.read().decode("latin-1")
        elif path.is_file():
            yield path.read_bytes().decode("latin-1")
