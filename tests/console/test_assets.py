"""The console's files are served without a token and with strict headers; nothing else is."""

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.console import STATIC, ConsoleFiles

PAGES = (
    "/",
    "/market",
    "/market/kraken/BTC/USDT",
    "/coverage",
    "/jobs",
    "/jobs/01abc",
    "/limits",
    "/connections",
    "/processes",
    "/storage",
    "/logs",
    "/config",
    "/login",
)
SCRIPT = "export const a = 1;\n" * 100


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ConsoleFiles:
    folder = tmp_path_factory.mktemp("console") / "static"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "app.js").write_text(SCRIPT)
    (folder / "style.css").write_text("")
    (folder / "parts" / "table.mjs").write_text("//")
    (folder / "program.py").write_text("not a file of a page")
    (folder / ".hidden.js").write_text("hidden")
    (folder.parent / "outside.js").write_text("outside")
    return ConsoleFiles(folder)


async def ask(
    files: ConsoleFiles, path: str, method: str = "GET", headers: Mapping[str, str] = {}
) -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await files({"method": method, "path": path, "headers": raw}, None, send)
    start, body = sent
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body["body"]


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_the_same_document(files: ConsoleFiles, path: str) -> None:
    status, headers, body = await ask(files, path)

    assert files.has(path)
    assert (status, body) == (200, b"<!doctype html>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["", "/healthz", "/api/v1/jobs", "/coverage/x", "/jobs/", "//", "/Market", "/assets"]
)
def test_other_paths_are_not_the_consoles(files: ConsoleFiles, path: str) -> None:
    assert not files.has(path)


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/assets/absent.js"])
async def test_every_answer_forbids_what_the_page_does_not_need(
    files: ConsoleFiles, path: str
) -> None:
    _, headers, _ = await ask(files, path)
    policy = dict(
        each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";")
    )

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_a_file_has_its_media_type_and_is_checked_before_it_is_used_again(
    files: ConsoleFiles,
) -> None:
    status, headers, body = await ask(files, "/assets/app.js")

    assert (status, body.decode()) == (200, SCRIPT)
    assert headers["Content-Type"].startswith("text/javascript")
    assert headers["Cache-Control"] == "no-cache"
    for tag in (headers["ETag"], f"W/{headers['ETag']}", f'"other", {headers["ETag"]}', "*"):
        again = await ask(files, "/assets/app.js", headers={"If-None-Match": tag})
        assert (again[0], again[2]) == (304, b"")
        assert again[1]["Content-Security-Policy"]
    assert (await ask(files, "/assets/app.js", headers={"If-None-Match": '"x"'}))[0] == 200
    assert (await ask(files, "/assets/parts/table.mjs"))[2] == b"//"
    assert (await ask(files, "/assets/style.css"))[2] == b""


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip; q=1.0", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("gzip;q=0.000, br", False),
    ],
)  # fmt: skip
async def test_large_files_are_compressed_for_those_who_accept_it(
    files: ConsoleFiles, accepted: str, compressed: bool
) -> None:
    _, headers, body = await ask(files, "/assets/app.js", headers={"Accept-Encoding": accepted})
    _, plain, _ = await ask(files, "/assets/app.js")

    assert (headers.get("Content-Encoding") == "gzip") is compressed
    assert (gzip.decompress(body) if compressed else body).decode() == SCRIPT
    assert headers["Vary"] == "Accept-Encoding"
    # A cache must not take one form for the other.
    assert (headers["ETag"] != plain["ETag"]) is compressed
    assert headers["Content-Length"] == str(len(body))


async def test_every_file_of_the_console_is_served() -> None:
    names = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    names.remove("vendor/MANIFEST")

    assert "index.html" in names
    for name in names:
        status, headers, body = await ask(ConsoleFiles(), f"/assets/{name}")
        assert (status, body) == (200, (STATIC / name).read_bytes()), name
        assert headers["Content-Type"]


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    files, path = ConsoleFiles(tmp_path), tmp_path / "app.js"
    path.write_text("old")
    _, before, _ = await ask(files, "/assets/app.js")
    path.write_text("new")
    os.utime(path, ns=(1, 1))

    _, after, body = await ask(files, "/assets/app.js")
    assert body == b"new"
    assert after["ETag"] != before["ETag"]
    path.unlink()
    assert (await ask(files, "/assets/app.js"))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_files_can_only_be_read(files: ConsoleFiles, method: str) -> None:
    status, headers, _ = await ask(files, "/assets/app.js", method)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_head_has_the_length_and_no_body(files: ConsoleFiles) -> None:
    status, headers, body = await ask(files, "/assets/app.js", "HEAD")

    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(SCRIPT)))


PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "app.js",
        "static",
        "outside.js",
        ".hidden.js",
        "parts",
        "program.py",
        "\\",
        "%2e",
    ]
) | st.text(max_size=4)


@given(st.lists(PARTS, max_size=5).map("/".join))
@example("../outside.js")
@example("parts/../../outside.js")
@example("/etc/passwd")
@example("..\\outside.js")
@example("program.py")
@example(".hidden.js")
@example("parts")
@example("app.js/")
@example("a" * 5000 + ".js")
async def test_no_spelling_of_a_path_leads_out_of_the_folder(
    files: ConsoleFiles, name: str
) -> None:
    status, _, body = await ask(files, f"/assets/{name}")

    if status != 200:
        assert status == 404
        assert json.loads(body)["detail"]
    else:
        assert name in ("app.js", "style.css", "index.html", "parts/table.mjs")
