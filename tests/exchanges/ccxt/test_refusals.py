"""What ccxt's errors mean: whoever catches ours need not know it."""

from collections.abc import Mapping

import pytest
from ccxt.base import errors as theirs

from penstock.errors import (
    BadRequest,
    ExchangeError,
    ExchangeUnreachable,
    PenstockError,
    RateLimited,
    UnexpectedAnswer,
    UnknownSymbol,
)
from penstock.exchanges.base import Meaning
from penstock.exchanges.ccxt.library.refusals import Parser, as_penstock_error, is_ccxts, judge_of

NOW_MS = 1_800_000_000_000
NAME = "ccxt:okx"


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (theirs.RateLimitExceeded("slow"), RateLimited),
        (theirs.DDoSProtection("slow"), RateLimited),
        (theirs.BadSymbol("no such market"), UnknownSymbol),
        (theirs.BadRequest("no"), BadRequest),
        (theirs.ArgumentsRequired("what"), BadRequest),
        (theirs.NotSupported("no"), BadRequest),
        (theirs.RequestTimeout("late"), ExchangeUnreachable),
        (theirs.NetworkError("cut"), ExchangeUnreachable),
        (theirs.ExchangeNotAvailable("away"), ExchangeError),
        (theirs.OnMaintenance("away"), ExchangeError),
        (theirs.AuthenticationError("who"), ExchangeError),
        (theirs.ExchangeError("no"), ExchangeError),
        (theirs.BadResponse("what"), UnexpectedAnswer),
        (theirs.NullResponse("nothing"), UnexpectedAnswer),
        (KeyError("result"), UnexpectedAnswer),
    ],
)
def test_each_error_is_brought_to_one_of_ours(error: Exception, ours: type[PenstockError]) -> None:
    found = as_penstock_error(error, NAME, NOW_MS)

    assert type(found) is ours
    assert NAME in str(found)


def test_every_error_of_ccxts_is_brought_to_one_that_is_ours() -> None:
    for name in theirs.__all__:
        error = getattr(theirs, name)
        if isinstance(error, type):
            assert is_ccxts(error("words"))
            assert isinstance(as_penstock_error(error("words"), NAME, NOW_MS), PenstockError)
    assert not is_ccxts(KeyError())


def test_a_stop_without_an_end_lasts_a_while() -> None:
    found = as_penstock_error(theirs.RateLimitExceeded("slow"), NAME, NOW_MS)

    assert isinstance(found, RateLimited)
    assert found.retry_at_ms > NOW_MS


def test_a_market_refused_by_the_exchange_is_an_unknown_symbol() -> None:
    refused = BadRequest("/book {}", status=400, code="BadSymbol", message="no ZZZ")
    other = BadRequest("/book {}", status=400, code="BadRequest", message="no")

    assert isinstance(as_penstock_error(refused, NAME, NOW_MS), UnknownSymbol)
    assert as_penstock_error(other, NAME, NOW_MS) is other


class Client:
    """Raises what it was given."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.heard = error, list[object]()

    def handle_errors(self, *told: object) -> None:
        self.heard = list(told)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("status", "error", "meaning"),
    [
        (200, theirs.RateLimitExceeded("slow"), "too_fast"),
        (429, theirs.ExchangeError("some words"), "too_fast"),
        (418, theirs.DDoSProtection("out"), "too_fast"),
        (503, theirs.ExchangeError("some words"), "failed"),
        (200, theirs.OnMaintenance("away"), "failed"),
        (400, theirs.BadSymbol("what"), "refused"),
        (500, theirs.BadRequest("what"), "refused"),
    ],
)
def test_an_answer_means_what_ccxt_or_the_status_says(
    status: int, error: Exception, meaning: Meaning
) -> None:
    api_error = judge_of(Client(error), Parser(), ("http://x/y", "GET", {}, None))(
        status, {}, b"{}"
    )

    assert api_error is not None
    assert api_error.meaning == meaning
    assert api_error.code == type(error).__name__


@pytest.mark.parametrize("error", [None, KeyError("data"), TypeError("none")])
def test_an_answer_that_ccxt_has_nothing_to_say_of_is_no_api_error(error: Exception) -> None:
    client, headers = Client(error), {"date": "today"}
    judge = judge_of(client, Parser(), ("http://x/y", "POST", {"a": "b"}, "{}"))

    assert judge(200, headers, b'{"price":1.10}') is None
    assert client.heard == [
        200, "", "http://x/y", "POST", headers,
        '{"price":1.10}', {"price": "1.10"}, {"a": "b"}, "{}",
    ]  # fmt: skip


def test_a_page_of_html_is_read_as_nothing() -> None:
    answers = Parser()
    pages = (b"<html>", b"", b"[" * 50_000, b"\xff\xfe")

    assert [answers.parse(page) for page in pages] == [None] * len(pages)


def test_an_answer_is_read_once() -> None:
    answers, body = Parser(), b'{"a":[1,2.50]}'
    found: Mapping[str, object] = answers.parse(body)

    assert found == {"a": [1, "2.50"]}
    assert answers.parse(body) is found
