"""Collected data over HTTP: page by page, each row once, in three formats."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.dataset.stored import NOON_NS, SECOND_NS

from penstock.config import Secret

from .conftest import TRADED, Client

RANGE = f"since={NOON_NS}&until={NOON_NS + 7200 * SECOND_NS}"


async def pages(api: Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        answer = await api.ask("GET", f"{path}{after}")
        assert answer.status == 200, answer.body
        found += answer.json["items"]
        if answer.json["next"] is None:
            assert "Link" not in answer.headers
            return found
        assert f"after={answer.json['next']}" in answer.headers["Link"]
        assert not after.endswith(f"={answer.json['next']}"), "a page is followed by itself"
        after = f"&after={answer.json['next']}"


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_pages_contain_every_trade_once(api: Client, limit: int) -> None:
    found = await pages(api, f"trades?symbol=btc_usdt&limit={limit}&{RANGE}")

    assert [each["id"] for each in found] == [each.id for each in TRADED]
    assert found[0]["price"] == TRADED[0].price_text
    assert found[0]["time"] == "2026-11-01T12:00:00.000000Z"


async def test_the_formats_have_the_same_rows(api: Client) -> None:
    comma = await api.ask("GET", f"trades?format=csv&{RANGE}")
    arrow = await api.ask("GET", f"trades?format=arrow&numbers=float&limit=5&{RANGE}")

    assert comma.headers["Content-Type"].startswith("text/csv")
    assert len(comma.body.splitlines()) == len(TRADED) + 1
    assert arrow.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    frame = pl.DataFrame(pa.ipc.open_stream(arrow.body).read_all())
    assert frame.height == 5
    assert frame.schema["price"] == pl.Float64
    assert 'rel="next"' in arrow.headers["Link"]


async def test_candles_books_and_coverage_are_offered(api: Client) -> None:
    candles = await pages(api, f"candles?interval=7m&from_trades=yes&limit=2&{RANGE}")
    assert sum(each["trades"] for each in candles) == len(TRADED)
    books = await pages(api, f"books?{RANGE}")
    assert [each["is_snapshot"] for each in books] == [True]
    assert books[0]["bids"] == [{"price": "9.5", "quantity": "1"}]
    assert await pages(api, "coverage?symbol=btc_usdt") == []
    answer = (await api.ask("GET", f"trades?{RANGE}")).json
    assert "gaps are not known" in answer["missing"][0]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("trades?symbol=eth_usdt", 404, "Did you mean BTC/USDT"),
        ("trades?exchange=nowhere", 404, "no data of 'nowhere'"),
        ("trades?since=soon", 422, "not a time"),
        ("trades?since=-1h&until=-2h", 422, "range is empty"),
        ("trades?limit=0", 422, "limit"),
        ("trades?format=xml", 422, "format"),
        ("trades?after=nothing", 422, "after"),
        ("trades?colour=red", 422, "there is no such field"),
        ("candles?interval=1x", 422, "not a candle interval"),
        ("candles?interval=99999M&from_trades=yes", 422, "too long"),
    ],
)
async def test_bad_requests_are_explained(api: Client, path: str, status: int, says: str) -> None:
    problem = (await api.ask("GET", path)).is_problem(status)

    assert says in problem["detail"]


async def test_data_needs_the_token(open_api: Any) -> None:
    api = await open_api(token=Secret("a-token-of-some-length"))

    (await api.ask("GET", f"trades?{RANGE}")).is_problem(401)
    allowed = await api.ask("GET", f"trades?{RANGE}", Authorization="Bearer a-token-of-some-length")
    assert allowed.status == 200
