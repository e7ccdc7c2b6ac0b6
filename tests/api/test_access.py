"""Who is let in, and what becomes of those who are not; every refusal is a problem."""

import asyncio
from typing import Any

import aiohttp
import pytest
from yarl import URL

from penstock.api.access import rules_of
from penstock.api.document import document, path_of
from penstock.api.operations import OPERATIONS
from penstock.config import Api, Secret
from penstock.errors import ConfigError
from penstock.web.facts import RequestCrashed, RequestServed

from .conftest import CANDLES, Client, Open

TOKEN = "correct horse battery staple"
READ_TOKEN = "another horse may look"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8780", "127.0.0.1.evil.example", ""]
)
@pytest.mark.parametrize("path", ["/api/v1/connectors", "/healthz", "/metrics"])
async def test_another_name_for_this_server_is_refused(api: Client, host: str, path: str) -> None:
    (await api.ask("GET", path, Host=host)).is_problem(421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8780", "[::1]:8780"])
async def test_this_machine_by_any_name_is_served(api: Client, host: str) -> None:
    assert (await api.ask("GET", "connectors", Host=host)).status == 200


async def test_names_an_operator_lists_are_served(open_api: Open) -> None:
    api = await open_api(hosts=("penstock.internal",))

    assert (await api.ask("GET", "connectors", Host="Penstock.Internal:443")).status == 200
    (await api.ask("GET", "connectors", Host="other.internal")).is_problem(421)


async def test_a_page_of_another_origin_changes_nothing(api: Client) -> None:
    body = {"exchange_id": "binance"}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        (await api.ask("POST", "connectors", body, Origin=origin)).is_problem(403)
    assert (await api.ask("GET", "connectors")).json["items"] == []

    assert (await api.ask("GET", "connectors", Origin="https://evil.example")).status == 200
    assert (await api.ask("POST", "connectors", body, Origin=api.url)).status == 201


async def test_a_token_is_needed_where_there_is_one(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN))

    for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
        answer = await api.ask("GET", "connectors", **wrong)
        answer.is_problem(401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    (await api.ask("GET", "openapi.json")).is_problem(401)
    (await api.ask("GET", "nothing/here")).is_problem(401)
    for odd in ("//api/v1/connectors", "/%61pi/v1/connectors", "/healthz/../api/v1/connectors"):
        address = URL(api.url + odd, encoded=True)
        async with api.session.get(address) as refused:
            assert refused.status == 401, odd
    assert (await api.ask("GET", "/healthz")).status == 200
    right = f"bearer {TOKEN}"
    assert (await api.ask("GET", "connectors", Authorization=right)).status == 200
    assert TOKEN not in repr(api.facts)


async def test_the_read_token_reads_and_changes_nothing(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN), read_token=Secret(READ_TOKEN))
    all_, reads = f"Bearer {TOKEN}", f"Bearer {READ_TOKEN}"
    await api.ask("POST", "connectors", {"exchange_id": "binance"}, Authorization=all_)
    job = (await api.ask("POST", "jobs", CANDLES, Authorization=all_)).json

    for one in (one for one in OPERATIONS if one.id not in ("login", "logout")):
        path = path_of(one).format(exchange_id="binance", job_id=job["id"], symbol="btc_usdt")
        answer = await api.ask(one.method.upper(), path, Authorization=reads)
        described = document()["paths"][path_of(one)][one.method]
        assert str(answer.status) in described["responses"], one.id
        assert not one.needs_token or ({"readToken": []} in described["security"]) == (
            answer.status != 403
        )
        if one.method == "get":
            expected = {
                "chartMarket": 422, "showMarket": 404, "showMarkets": 404, "showTick": 404,
                "streamTicks": 426, "live": 426,
            }  # fmt: skip
            assert answer.status == expected.get(one.id, 200), one.id
        else:
            assert "may only read" in answer.is_problem(403)["detail"], one.id
    for odd in ("PUT", "TRACE", "MERGE"):
        (await api.ask(odd, "jobs", Authorization=reads)).is_problem(403)
    assert (await api.ask("HEAD", "jobs", Authorization=reads)).status == 200
    assert (await api.ask("OPTIONS", "jobs", Authorization=reads)).status == 204
    assert (await api.ask("GET", f"jobs/{job['id']}", Authorization=all_)).json == job
    assert READ_TOKEN not in repr(api.facts)


async def test_with_the_read_token_alone_nothing_can_be_changed(open_api: Open) -> None:
    api = await open_api(host="0.0.0.0", read_token=Secret(READ_TOKEN))
    reads = {"Authorization": f"Bearer {READ_TOKEN}"}

    assert (await api.ask("GET", "connectors", **reads)).status == 200
    (await api.ask("POST", "connectors", {"exchange_id": "binance"}, **reads)).is_problem(403)
    (await api.ask("GET", "connectors")).is_problem(401)
    (await api.ask("POST", "jobs", CANDLES, Authorization="Bearer ")).is_problem(401)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "penstock.internal"])
def test_other_machines_are_not_let_in_without_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="PENSTOCK_API_TOKEN"):
        rules_of(Api(host=host))

    assert TOKEN not in repr(Api(host=host, token=Secret(TOKEN)))
    assert rules_of(Api(host=host, token=Secret(TOKEN))).tokens.control == TOKEN.encode()


async def test_a_server_of_every_address_is_reached_by_number_but_not_by_any_name(
    open_api: Open,
) -> None:
    api = await open_api(host="0.0.0.0", token=Secret(TOKEN))
    token = {"Authorization": f"Bearer {TOKEN}"}

    assert (await api.ask("GET", "connectors", Host="192.0.2.7:80", **token)).status == 200
    (await api.ask("GET", "connectors", Host="evil.example", **token)).is_problem(421)


async def test_a_large_body_is_refused(api: Client) -> None:
    large = {"exchange_id": "binance", "notes": "x" * 1_000_001}
    (await api.ask("POST", "connectors", large)).is_problem(413)

    async def pieces() -> Any:
        for _ in range(30):
            yield b"x" * 50_000

    # Without a length, and to an operation that reads no body.
    address = f"{api.url}/api/v1/connectors/binance/pause"
    try:
        async with api.session.post(address, data=pieces()) as answer:
            assert answer.status == 413
    except aiohttp.ClientOSError:
        pass  # the connection was closed while the client still wrote
    assert api.facts[-1].status == 413  # type: ignore[attr-defined]
    assert (await api.ask("GET", "connectors")).json["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v2/jobs", 404),
        ("PUT", "/api/v1/connectors", 405),
        ("TRACE", "/api/v1/connectors", 405),
        ("GET", "/api/v1/connectors/a%2Fb", 404),
        ("GET", "/api/v1/connectors/%00", 400),
        ("GET", "/api/v1/jobs/%F0%9F%92%A9", 404),
        ("GET", "/api/v1/jobs/" + "x" * 3000, 404),
    ],
)
async def test_a_wrong_address_is_a_problem(
    api: Client, method: str, path: str, status: int
) -> None:
    answer = await api.ask(method, path)

    answer.is_problem(status)
    if status == 405:
        assert "GET" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"exchange_id": "binance"} x', "application/json", 400),
        (b"[" * 500_000, "application/json", 400),
        (b'{"exchange_id": ' + b"[" * 500_000, "application/json", 400),
        (b"{}", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b'{"exchange_id": 5}', "application/json", 422),
        (b'{"exchange_id": "binance", "notes": "a\\u0000b"}', "application/json", 422),
        (b'{"exchange_id": "binance", "limits": []}', "application/json", 422),
        (b'{"exchange_id": "binance"}', "text/plain", 415),
        (b"exchange_id=binance", "application/x-www-form-urlencoded", 415),
    ],
)
async def test_a_wrong_body_is_a_problem_and_changes_nothing(
    api: Client, body: bytes, content_type: str, status: int
) -> None:
    headers = {"Content-Type": content_type}
    address = f"{api.url}/api/v1/connectors"
    async with api.session.post(address, data=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        assert answer.content_type == "application/problem+json"
    assert (await api.ask("GET", "connectors")).json["items"] == []


async def test_what_nobody_foresaw_is_told_to_the_log_and_not_to_the_client(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr(api.app_state.job_service, "find", broken)
    problem = (await api.ask("GET", "jobs")).is_problem(500)

    assert "secret" not in str(problem)
    (crash,) = [fact for fact in api.facts if isinstance(fact, RequestCrashed)]
    assert crash.id == problem["id"]
    assert "ZeroDivisionError: the secret of the house" in crash.error


async def test_a_whole_number_may_be_written_with_a_point(api: Client) -> None:
    body = {"exchange_id": "binance", "limits": [{"amount": 10.0, "period_ms": 6e4}]}
    assert (await api.ask("POST", "connectors", body)).json["rate_limit"] == 10

    for wrong in (10.5, 1e300):
        body = {"limits": [{"amount": wrong, "period_ms": 60_000}]}
        (await api.ask("PATCH", "connectors/binance", body)).is_problem(422)


async def test_options_names_every_method_of_a_path(api: Client) -> None:
    answer = await api.ask("OPTIONS", "connectors/binance")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"


async def test_every_answer_is_a_fact(api: Client) -> None:
    await api.ask("POST", "jobs?token=hush", CANDLES)
    await api.ask("GET", "nothing")

    served = [fact for fact in api.facts if isinstance(fact, RequestServed)]
    assert [(fact.method, fact.path, fact.status) for fact in served] == [
        ("POST", "/api/v1/jobs", 201),
        ("GET", "/api/v1/nothing", 404),
    ]


async def test_a_client_that_hangs_up_harms_nobody(api: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    writer.close()
    await reader.read()

    assert (await api.ask("GET", "connectors")).status == 200
    assert not [fact for fact in api.facts if isinstance(fact, RequestCrashed)]
