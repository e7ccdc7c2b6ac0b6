"""Browsers log in once: their cookie is not for scripts, expires, and alone changes nothing."""

from http.cookies import Morsel, SimpleCookie
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.logins import FREE_FAILURES
from penstock.api.sessions import (
    MOST_SESSIONS,
    Sessions,
    cookie_name,
    session_cookie,
    session_id,
)
from penstock.clock import ManualClock
from penstock.config import Secret
from penstock.web.facts import LoginFailed

from .conftest import Answer, Client, Open

TOKEN, READ_TOKEN = "correct horse battery staple", "another horse may look"
CONSOLE = {"X_Penstock_Console": "1"}
BODY = {"exchange_id": "binance"}


@pytest.fixture
async def api(open_api: Open) -> Client:
    return await open_api(token=Secret(TOKEN), read_token=Secret(READ_TOKEN))


async def log_in(api: Client, token: str = TOKEN, **headers: str) -> Answer:
    # The client must not send cookies by itself.
    api.session.cookie_jar.clear()
    answer = await api.ask("POST", "session", {"token": token}, **headers)
    api.session.cookie_jar.clear()
    return answer


def cookie_of(answer: Answer) -> Morsel[str]:
    (morsel,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    return morsel


async def cookie(api: Client, token: str = TOKEN) -> dict[str, str]:
    answer = await log_in(api, token)
    assert answer.status == 204
    morsel = cookie_of(answer)
    return {"Cookie": f"theme=dark; {morsel.key}={morsel.value}"}


async def test_a_token_begins_a_session_in_a_cookie_that_only_the_server_reads(api: Client) -> None:
    answer = await log_in(api)
    morsel = cookie_of(answer)

    assert answer.status == 204
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"
    assert morsel["path"] == "/api/v1"
    assert morsel["max-age"] == "43200"
    assert not morsel["secure"]
    assert len(morsel.value) >= 43, "256 random bits"
    assert TOKEN not in answer.headers["Set-Cookie"]
    assert cookie_of(await log_in(api)).value != morsel.value


async def test_a_page_that_came_over_tls_has_a_cookie_for_tls_only(api: Client) -> None:
    host = api.url.removeprefix("http://")

    assert cookie_of(await log_in(api, Origin=f"https://{host}"))["secure"]


async def test_a_session_may_do_what_its_token_may(api: Client) -> None:
    control, read = await cookie(api), await cookie(api, READ_TOKEN)

    for each, scope in ((control, "control"), (read, "read")):
        assert (await api.ask("GET", "session", **each)).json == {"needed": True, "scope": scope}
        assert (await api.ask("GET", "connectors", **each)).status == 200
    refused = await api.ask("POST", "connectors", BODY, **read, **CONSOLE)
    assert "may only read" in refused.is_problem(403)["detail"]
    assert (await api.ask("POST", "connectors", BODY, **control, **CONSOLE)).status == 201


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "MERGE"])
async def test_a_cookie_alone_changes_nothing(api: Client, method: str) -> None:
    control = await cookie(api)

    for headers in ({}, {"X_Penstock_Console": "0"}):
        answer = await api.ask(method, "connectors", BODY, **control, **headers)
        assert "X-Penstock-Console" in answer.is_problem(403)["detail"]
    other = await api.ask(
        "POST", "connectors", BODY, **control, **CONSOLE, Origin="http://127.0.0.1:1"
    )
    other.is_problem(403)
    assert (await api.ask("GET", "connectors", **control)).json["items"] == []


async def test_a_wrong_token_begins_no_session_and_has_to_wait(api: Client) -> None:
    for _ in range(FREE_FAILURES):
        answer = await log_in(api, "wrong" * 4)
        assert answer.is_problem(401)["detail"] == "The token is wrong."
        assert "Set-Cookie" not in answer.headers
    waits = await log_in(api)
    waits.is_problem(429)
    assert waits.headers["Retry-After"] == "1"

    failed = [fact for fact in api.facts if isinstance(fact, LoginFailed)]
    assert [fact.times for fact in failed] == [*range(1, FREE_FAILURES + 1)]
    assert TOKEN not in repr(api.facts)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"token": ""}, 422),
        ({"token": 7}, 422),
        ({"token": "x" * 1001}, 422),
        ({"token": TOKEN, "scope": "control"}, 422),
        ([], 422),
    ],
)
async def test_a_malformed_login_is_a_problem(api: Client, body: Any, status: int) -> None:
    answer = await api.ask("POST", "session", body)

    answer.is_problem(status)
    assert TOKEN not in answer.body.decode()


async def test_a_session_that_ended_says_so(api: Client) -> None:
    control = await cookie(api)
    ended = await api.ask("DELETE", "session", **control)

    assert ended.status == 204
    assert cookie_of(ended)["max-age"] == "0"
    refused = await api.ask("GET", "connectors", **control)
    assert refused.is_problem(401)["detail"] == "The session has ended. Log in again."
    assert (await api.ask("GET", "session", **control)).json == {"needed": True, "scope": None}
    assert (await api.ask("DELETE", "session", **control)).status == 204


async def test_a_session_expires(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN), session_hours=1e-9)
    control = await cookie(api)

    refused = await api.ask("GET", "connectors", **control)
    assert refused.is_problem(401)["detail"] == "The session has ended. Log in again."


async def test_a_new_login_ends_the_session_before(api: Client) -> None:
    first = await cookie(api)
    again = await api.ask("POST", "session", {"token": READ_TOKEN}, **first)

    assert again.status == 204
    (await api.ask("GET", "connectors", **first)).is_problem(401)


async def test_sessions_end_with_the_server(open_api: Open) -> None:
    settings = {"token": Secret(TOKEN)}
    control = await cookie(await open_api(**settings))

    (await (await open_api(**settings)).ask("GET", "connectors", **control)).is_problem(401)


async def test_a_wrong_token_is_not_replaced_by_a_cookie(api: Client) -> None:
    control = await cookie(api)

    (await api.ask("GET", "connectors", **control, Authorization="Bearer wrong")).is_problem(401)


async def test_nobody_logs_in_where_no_token_is_set(open_api: Open) -> None:
    api = await open_api()

    assert (await api.ask("GET", "session")).json == {"needed": False, "scope": "control"}
    answer = await api.ask("POST", "session", {"token": "any"})
    assert (answer.status, answer.headers.get("Set-Cookie")) == (204, None)
    assert (await api.ask("POST", "connectors", BODY)).status == 201


async def test_whether_a_login_is_needed_is_told_without_one(api: Client) -> None:
    assert (await api.ask("GET", "session")).json == {"needed": True, "scope": None}
    with_token = await api.ask("GET", "session", Authorization=f"Bearer {READ_TOKEN}")
    assert with_token.json == {"needed": True, "scope": "read"}
    # Only this spelling of the address is open.
    (await api.ask("GET", "session/")).is_problem(401)


OPENED = st.lists(
    st.tuples(st.sampled_from(["open", "end", "wait"]), st.integers(0, 9)), max_size=60
)


@given(OPENED)
async def test_a_session_is_found_until_it_ends(steps: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    sessions = Sessions(clock, lifetime_s=10)
    expected: dict[str, int] = {}
    for step, number in steps:
        if step == "open":
            expected[sessions.open("read" if number % 2 else "control")] = 10
        elif step == "end" and expected:
            ended = list(expected)[number % len(expected)]
            sessions.end(ended)
            expected[ended] = 0
        elif step == "wait":
            await clock.advance(number)
            expected = {id_: left - number for id_, left in expected.items()}
        for id_, left in expected.items():
            assert (sessions.find(id_) is not None) == (left > 0)
    assert sessions.find("") is None
    assert not any(id_.encode() in repr(vars(sessions)).encode() for id_ in expected)


def test_the_number_of_sessions_is_bounded_and_the_oldest_go() -> None:
    sessions = Sessions(ManualClock(), lifetime_s=10)
    ids = [sessions.open("read") for _ in range(MOST_SESSIONS + 3)]

    assert len(sessions) == MOST_SESSIONS
    assert [id_ for id_ in ids if sessions.find(id_) is None] == ids[:3]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("penstock_session=a", "a"),
        ("x=1;penstock_session=a=b ; y=2", "a=b"),
        ("penstock_session=", None),
        ("xpenstock_session=a", None),
        ("PENSTOCK_SESSION=a", None),
        ("", None),
    ],
)
def test_the_cookie_is_found_among_others(header: str, found: str | None) -> None:
    assert session_id({"host": "penstock.example", "cookie": header}) == found


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:8780", "penstock_session_8780"),
        ("[::1]:8781", "penstock_session_8781"),
        ("[::1]", "penstock_session"),
        ("localhost", "penstock_session"),
        ("localhost:x=y; Domain=z", "penstock_session"),
        ("", "penstock_session"),
    ],
)
def test_servers_on_one_host_have_different_cookies(host: str, name: str) -> None:
    assert cookie_name(host) == name
    assert session_id({"host": host, "cookie": f"penstock_session_1=other; {name}=own"}) == "own"
    assert session_cookie(host, "own", 10, secure=False).startswith(f"{name}=own; ")


async def test_the_cookie_is_named_after_the_port(api: Client) -> None:
    assert cookie_of(await log_in(api)).key == f"penstock_session_{api.url.rpartition(':')[2]}"
