"""The console's page is served beside the API, under the same checks, without a token."""

from pathlib import Path

import pytest
from tests.api.conftest import Client, Open

from penstock.config.secret import Secret
from penstock.console import ConsoleFiles

TOKEN = Secret("token" * 5)


@pytest.fixture
async def api(open_api: Open, tmp_path: Path) -> Client:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "app.js").write_text("export {};" * 200)
    return await open_api(page=ConsoleFiles(tmp_path), token=TOKEN)


async def test_the_page_needs_no_token_and_everything_else_does(api: Client) -> None:
    for path in ("/", "/market/kraken/BTC%2FUSDT", "/login", "/jobs/x%3Cimg%3E"):
        answer = await api.ask("GET", path)
        assert (answer.status, answer.body) == (200, b"<!doctype html>")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (await api.ask("GET", "/assets/app.js")).status == 200
    for path in ("jobs", "openapi.json", "/nothing", "/assets"):
        (await api.ask("GET", path)).is_problem(401)


async def test_a_file_that_is_not_there_is_a_problem(api: Client) -> None:
    (await api.ask("GET", "/assets/absent.js")).is_problem(404)
    (await api.ask("PUT", "/assets/app.js")).is_problem(405)


async def test_head_and_not_modified_have_no_body(api: Client) -> None:
    whole = await api.ask("GET", "/assets/app.js", accept_encoding="identity")
    head = await api.ask("HEAD", "/assets/app.js", accept_encoding="identity")
    same = await api.ask(
        "GET",
        "/assets/app.js",
        accept_encoding="identity",
        if_none_match=whole.headers["ETag"],
    )

    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(whole.body)) == "2000"
    assert (same.status, same.body) == (304, b"")
    # The connection is still in order.
    assert (await api.ask("GET", "/")).status == 200


async def test_the_page_is_served_only_under_the_names_of_this_server(api: Client) -> None:
    (await api.ask("GET", "/", host="evil.example")).is_problem(421)
