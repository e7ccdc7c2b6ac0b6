"""Questions of no sense to the simulator itself: each is answered at once with what is right."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import ClientSession

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator import registry
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.questions import BadQuestion
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.listings import QUIET
from penstock.simulator.market.market import Market, library_of

BEGIN_MS, HOUR_AND_A_MS = 1_754_006_400_000, 3_600_001
NONSENSE = ("", "-1", "NaN", "1e30", "1" + "0" * 30, "9" * 5000, "abc", "²", "1.5", "\x00", "[]")
FAR = ("17948575460670000", "9" * 18, "18446744073709551615")
LEDGER = {
    "trades": ("from_id", "limit"),
    "agg_trades": ("from_id", "limit"),
    "book": ("update_id", "at_ms", "depth"),
    "candles": ("start_ms", "end_ms", "step_ms", "boundaries"),
    "ids": ("at_ms",),
}
USUAL = {
    "candles": {"start_ms": "0", "end_ms": "60000"},
    "book": {"at_ms": "1754006400000"},
}


class Answer(NamedTuple):
    status: int
    error: str
    took_s: float


Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def ask(
    request: pytest.FixtureRequest, session: ClientSession
) -> AsyncIterator[Callable[..., Awaitable[Answer]]]:
    name = getattr(request, "param", "binance")
    settings, clock = Simulator(port=0), SystemClock()
    listings = [each for each in registry.catalogue(name).all() if each.trades_per_minute == QUIET]
    markets = [Market(each, 1, library_of(each)) for each in listings[:1]]
    exchange, ledger = registry.build(name, markets, settings), Ledger(markets, clock)
    server = SimulatorServer(exchange, settings, clock, ledger=ledger)
    await server.start()

    async def asked(question: str, body: str | None = None, **headers: str) -> Answer:
        method, path = question.replace("SYMBOL", server.symbols[0]).split(" ", 1)
        url, began = f"http://{server.address}/_sim/{path}", time.monotonic()
        async with session.request(method, url, data=body, headers=headers) as answer:
            found = await answer.json()
        return Answer(answer.status, found.get("error", ""), time.monotonic() - began)

    yield asked
    await server.stop()


@pytest.mark.parametrize("ask", registry.names(), indirect=True)
async def test_the_ledger_refuses_every_value_that_is_out_of_range(ask: Ask) -> None:
    for question, parameters in LEDGER.items():
        usual = USUAL.get(question, {})
        for parameter in parameters:
            for value in (*NONSENSE, *FAR):
                query = {**usual, "symbol": "SYMBOL", parameter: value}
                if parameter == "boundaries":
                    query[parameter] = f"1,{value}"
                if parameter == "update_id":
                    del query["at_ms"]
                text = "&".join(f"{name}={quote(given)}" for name, given in query.items())
                answer = await ask(f"GET ledger/{question}?{text}")
                assert answer.status == 400, (question, parameter, value)
                assert parameter in answer.error


async def test_an_id_of_another_exchange_is_answered_with_the_ids_there_are(ask: Ask) -> None:
    answer = await ask("GET ledger/trades?symbol=SYMBOL&from_id=17948575460670000")

    assert answer.status == 400
    assert answer.error.startswith("from_id must be a whole number from 1 to ")
    assert answer.error.endswith(", not '17948575460670000'. The ledger ends one year from now.")


@pytest.mark.parametrize(
    ("question", "status", "says"),
    [
        ("GET ledger/traeds?symbol=SYMBOL", 400, "Did you mean trades"),
        ("GET ledger/trades", 400, "There is no symbol ''"),
        ("GET ledger/trades?symbol=bnbbtc", 400, "Did you mean bnb_btc?"),
        ("GET ledger/trades?symbol=" + "x" * 90_000, 400, "There is no symbol"),
        ("GET ledger/trades?symbol=SYMBOL&form_id=1", 400, "Did you mean from_id?"),
        ("GET ledger/trades?symbol=SYMBOL&symbol=SYMBOL", 400, "more than once"),
        ("GET ledger/book?symbol=SYMBOL&at_ms=1&update_id=1", 400, "not both"),
        ("GET ledger/book?symbol=SYMBOL&at_ms=1&snapshot_ms=1", 400, "not both"),
        ("GET ledger/book?symbol=SYMBOL&update_id=0", 400, "update_id must be"),
        ("GET requests?after=-1", 400, "after must be a whole number from 0"),
        ("GET requests?aftr=1", 400, "Did you mean after?"),
        ("GET faults?after=", 400, "after must be"),
        ("GET state?x=1", 400, "It takes no parameters"),
        ("GET windws", 404, "Did you mean GET windows?"),
        ("GET " + "x" * 90_000, 404, "There is no such path"),
        ("GET %FF%00", 404, "There is no such path"),
        ("POST disconnect?connection=abc", 400, "connection must be a whole number"),
        ("POST disconnect?connection=99", 200, ""),
        ("POST unban?ip=1", 400, "It takes no parameters"),
        ("DELETE state", 404, "There is no such path"),
    ],
)
async def test_a_question_that_is_nearly_right_is_told_what_would_be(
    ask: Ask, question: str, status: int, says: str
) -> None:
    answer = await ask(question)

    assert (answer.status, says in answer.error) == (status, True), answer


@pytest.mark.parametrize(
    ("question", "body", "says"),
    [
        ("POST faults", '{"plan": 5}', "Expected `str`"),
        ("POST hold", "{}", "missing required field `streams`"),
        ("POST faults", '{"plan": "drop=NaN"}', "drop takes a rate"),
        ("POST faults", '{"plan": "latency=99999999999h"}', "up to 24h"),
        ("POST faults", '{"plan": "' + "drop=0.1," * 201 + '"}', "At most 200 are allowed"),
        ("POST faults", '{"plan": "' + "x" * 100_000 + '"}', "length <= 20000"),
        ("POST faults", '{"plan": "", "seed": 1' + "0" * 30 + "}", "seed"),
        ("POST faults", '{"x":' * 15_000, "x"),
        ("POST shutdown_notice", '{"after_ms": -1}', ">= 0"),
        ("POST shutdown_notice", '{"after_ms": 1' + "0" * 30 + "}", "after_ms"),
        ("POST shutdown_notice", '{"after_ms": NaN}', "malformed"),
    ],
)
async def test_a_body_that_is_wrong_is_told_what_is(
    ask: Ask, question: str, body: str, says: str
) -> None:
    answer = await ask(question, body)

    assert answer.status == 400
    assert says in answer.error, answer.error[:300]


@pytest.mark.parametrize("headers", [{"Host": "["}, {"Origin": "http://["}])
async def test_an_address_that_is_none_may_not_ask(ask: Ask, headers: dict[str, str]) -> None:
    assert (await ask("GET state", **headers)).status == 403


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("trades", {"limit": 10_000}),
        ("agg_trades", {"limit": 10_000}),
        ("candles", {"end_ms": BEGIN_MS + 9_999_000, "step_ms": 1000}),
        ("candles", {"end_ms": BEGIN_MS + 9_999 * 420_000, "step_ms": 420_000}),
        ("candles", {"end_ms": BEGIN_MS + 999 * HOUR_AND_A_MS, "step_ms": HOUR_AND_A_MS}),
        ("candles", {"end_ms": BEGIN_MS + 9_999 * HOUR_AND_A_MS, "step_ms": HOUR_AND_A_MS}),
        ("book", {"at_ms": BEGIN_MS, "depth": 100_000}),
    ],
)
def test_the_dearest_questions_take_seconds_at_most(question: str, query: dict[str, int]) -> None:
    (listing,) = registry.catalogue("binance").find(["btc_usdt"])
    ledger = Ledger([Market(listing, 1, library_of(listing))], SystemClock())
    asked = {"symbol": "btc_usdt", **{name: str(value) for name, value in query.items()}}
    if question == "candles":
        asked["start_ms"] = str(BEGIN_MS)

    began = time.process_time()
    with suppress(BadQuestion):
        msgspec.json.encode(ledger.answer(question, asked))

    # Many times less on a machine that is left alone; what was asked for without end took hours.
    assert time.process_time() - began < 5.0
