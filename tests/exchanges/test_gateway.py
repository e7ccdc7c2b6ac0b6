"""The gateway: pays before it sends, knows what left, stops when told; on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from tests.waiting import PATIENCE_S

from penstock.clock import Clock, ManualClock, SystemClock
from penstock.config import Exchanges, Requests, Settings
from penstock.errors import (
    BadRequest,
    Banned,
    CircuitOpen,
    ExchangeError,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnexpectedAnswer,
)
from penstock.exchanges import http, registry
from penstock.exchanges.base import ApiError, Exchange, Meaning, Request
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.facts import (
    CapacityLow,
    ClockStepped,
    RequestFailed,
    RequestSent,
    SendingStopped,
)
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.http import HttpTransport
from penstock.exchanges.transport import Answer, Transport
from penstock.resilience.backoff import Backoff
from penstock.telemetry import Fact
from penstock.throttle.gate import GateGrant, Limit
from penstock.throttle.local_gate import LocalGate
from penstock.throttle.offset import Offset

DAY = Limit(amount=1000, period_ms=86_400_000)
EXCHANGE: Exchange = registry.load("binance")
QUICK = Requests(connect_timeout=0.3, read_timeout=0.3, total_timeout=0.6)
ASK: Request[Any] = Request("/ask", cost=10, read=lambda body, _: json.loads(body))


@dataclass
class Toy:
    """A gateway to a server on this machine, and everything it told."""

    gateway: Gateway
    gate: LocalGate
    facts: list[Fact] = field(default_factory=list)

    def used(self) -> int:
        return self.gate.used()[DAY]

    def sent(self) -> list[tuple[str, int, int]]:
        return [(f.path, f.cost, f.status) for f in self.facts if isinstance(f, RequestSent)]

    def failed(self) -> list[bool]:
        return [f.sent for f in self.facts if isinstance(f, RequestFailed)]


def toy(transport: Transport, clock: Clock | None = None, attempts: int = 3) -> Toy:
    clock = clock or SystemClock()
    gate = LocalGate(clock, [DAY], acquire_timeout_ms=500, guard_ms=0)
    facts: list[Fact] = []
    backoff = Backoff(attempts=attempts, first_s=0.001, longest_s=0.002)
    return Toy(Gateway(EXCHANGE, transport, gate, clock, backoff, facts.append), gate, facts)


@asynccontextmanager
async def answering(*replies: web.Response) -> AsyncIterator[tuple[Toy, list[str]]]:
    """A server that gives these replies in turn, the last one ever after."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        reply = replies[min(len(asked), len(replies) - 1)]
        asked.append(request.path_qs)
        return web.Response(body=reply.body, status=reply.status, headers=reply.headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made = toy(HttpTransport(f"http://{host}:{port}", Requests()))
    try:
        yield made, asked
    finally:
        await made.gateway.aclose()
        await runner.cleanup()


async def test_an_answer_without_end_is_not_read_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "LARGEST_ANSWER", 1_000)
    async with answering(json_reply("x" * 1_000)) as (made, _):
        made.gateway.backoff = Backoff(attempts=1)
        with pytest.raises(NoAnswer, match="longer than 1000 bytes"):
            await made.gateway.fetch(ASK)


Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(
    conversation: Conversation, scheme: str = "http", attempts: int = 3
) -> AsyncIterator[Toy]:
    """A server that does on each connection whatever it is told, down to the byte."""

    async def carry_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await conversation(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(carry_out, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = toy(HttpTransport(f"{scheme}://127.0.0.1:{port}", QUICK), attempts=attempts)
    try:
        yield made
    finally:
        await made.gateway.aclose()
        server.close()


def json_reply(value: Any, status: int = 200, **headers: str) -> web.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return web.Response(body=json.dumps(value).encode(), status=status, headers=named)


async def test_an_answer_is_read_and_paid_for() -> None:
    async with answering(json_reply([1])) as (made, asked):
        answer = await made.gateway.fetch(replace(ASK, params={"symbol": "BTC", "limit": 5}))

        assert answer == [1]
        assert asked == ["/ask?symbol=BTC&limit=5"]
        assert made.used() == 10
        assert made.sent() == [("/ask", 10, 200)]


async def test_the_reader_is_told_when_the_answer_arrived() -> None:
    async with answering(json_reply(0)) as (made, _):
        before_ns = made.gateway.clock.now_ns()
        at_ns = await made.gateway.fetch(replace(ASK, read=lambda _, at_ns: at_ns))
        assert before_ns < at_ns <= made.gateway.clock.now_ns()


async def test_what_never_left_is_tried_again_and_paid_back() -> None:
    async with talking(_nothing) as gone:
        pass
    with pytest.raises(NeverSent):
        await gone.gateway.fetch(ASK)

    assert gone.failed() == [False, False, False]
    assert gone.used() == 0
    await gone.gateway.aclose()


async def test_a_connection_that_does_not_open_in_time_is_never_sent() -> None:
    async with talking(_silence, scheme="https", attempts=1) as made:
        with pytest.raises(NeverSent):
            await made.gateway.fetch(ASK)
        assert made.used() == 0


async def test_what_got_no_answer_is_tried_again_and_paid_each_time() -> None:
    asked = 0

    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1

    async with talking(hang_up) as made:
        with pytest.raises(NoAnswer):
            await made.gateway.fetch(ASK)

        assert asked == 3, "the HTTP library must not repeat what nobody paid for"
        assert made.failed() == [True, True, True]
        assert made.used() == 30


async def test_a_kept_connection_that_died_is_not_used_to_send_unpaid() -> None:
    asked = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            asked += 1
            if asked == 1:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
            else:
                return

    async with talking(answer_once, attempts=1) as made:
        assert await made.gateway.fetch(ASK) == {}
        with pytest.raises(NoAnswer):
            await made.gateway.fetch(ASK)

        assert asked == 2
        assert made.used() == 20


@pytest.mark.parametrize("how", ["silence", "cut", "dripping"])
async def test_an_answer_that_does_not_come_whole_in_time_is_no_answer(how: str) -> None:
    async with talking({"silence": _silence, "cut": _cut, "dripping": _drip}[how], attempts=1) as t:
        with pytest.raises(NoAnswer):
            async with asyncio.timeout(PATIENCE_S):
                await t.gateway.fetch(ASK)
        assert t.used() == 10


async def test_a_servers_failure_is_tried_again() -> None:
    async with answering(json_reply({}, 503), json_reply([2])) as (made, asked):
        assert await made.gateway.fetch(ASK) == [2]
        assert len(asked) == 2
        assert made.used() == 20


async def test_a_server_that_keeps_failing_is_given_up() -> None:
    async with answering(web.Response(body=b"<html>", status=502)) as (made, asked):
        with pytest.raises(ExchangeError) as caught:
            await made.gateway.fetch(ASK)

        assert caught.value.status == 502
        assert len(asked) == 3


async def test_a_refusal_shuts_the_gate_for_everybody() -> None:
    too_fast = json_reply({"code": -1003, "msg": "Too much"}, 429, Retry_After="7")
    async with answering(too_fast) as (made, asked):
        before_ms = made.gateway.clock.now_ms()
        with pytest.raises(RateLimited, match="Too much") as caught:
            await made.gateway.fetch(ASK)
        with pytest.raises(RateLimited):
            await made.gateway.fetch(ASK)

        assert 7_000 <= caught.value.retry_at_ms - before_ms < 9_000
        assert len(asked) == 1, "nothing is sent while the exchange says stop"
        (stopped,) = [f for f in made.facts if isinstance(f, SendingStopped)]
        assert (stopped.status, stopped.until_ms) == (429, caught.value.retry_at_ms)


async def test_a_ban_holds_until_the_instant_it_names() -> None:
    until_ms = SystemClock().now_ms() + 3_600_000
    words = f"Way too much request weight used; IP banned until {until_ms}. Stop."
    banned = json_reply({"code": -1003, "msg": words}, 418, Retry_After="1")
    async with answering(banned) as (made, asked):
        with pytest.raises(Banned) as caught:
            await made.gateway.fetch(ASK)
        with pytest.raises(RateLimited):
            await made.gateway.fetch(ASK)

        assert until_ms <= caught.value.until_ms < until_ms + 2_000
        assert len(asked) == 1


async def test_a_firewalls_page_stops_the_sending_too() -> None:
    async with answering(web.Response(body=b"<html>no</html>", status=403)) as (made, asked):
        with pytest.raises(Banned):
            await made.gateway.fetch(ASK)
        with pytest.raises(RateLimited):
            await made.gateway.fetch(ASK)
        assert len(asked) == 1


async def test_a_bad_request_is_told_with_its_code_and_not_repeated() -> None:
    invalid = json_reply({"code": -1121, "msg": "Invalid symbol."}, 400)
    async with answering(invalid) as (made, asked):
        with pytest.raises(BadRequest, match="Invalid symbol") as caught:
            await made.gateway.fetch(ASK)
        assert (caught.value.code, caught.value.status, len(asked)) == (-1121, 400, 1)


def complaint_in_words(body: bytes) -> ApiError | None:
    """How an exchange complains that answers everything with 200."""
    if not body.startswith(b"no: "):
        return None
    words = body[4:].decode()
    meanings: dict[str, Meaning] = {"slower": "too_fast", "busy": "failed", "what": "refused"}
    return ApiError("no", words, meaning=meanings[words])


def says_no_with_200(made: Toy) -> None:
    made.gateway.exchange = replace(
        EXCHANGE, refuses_with_200=True, read_api_error=complaint_in_words, time_step_ms=1000
    )


async def test_an_api_error_behind_status_200_shuts_the_gate_too() -> None:
    async with answering(web.Response(body=b"no: slower")) as (made, asked):
        says_no_with_200(made)
        before_ms = made.gateway.clock.now_ms()
        with pytest.raises(RateLimited, match="slower") as caught:
            await made.gateway.fetch(ASK)
        with pytest.raises(RateLimited):
            await made.gateway.fetch(ASK)

        assert len(asked) == 1
        assert caught.value.retry_at_ms >= before_ms + 10_000, "no end was named"


async def test_a_failure_behind_status_200_is_tried_again_and_a_refusal_is_not() -> None:
    busy, what = web.Response(body=b"no: busy"), web.Response(body=b"no: what")
    async with answering(busy, json_reply([2])) as (made, asked):
        says_no_with_200(made)
        assert await made.gateway.fetch(ASK) == [2]
        assert len(asked) == 2
    async with answering(what) as (made, asked):
        says_no_with_200(made)
        with pytest.raises(BadRequest, match="what") as caught:
            await made.gateway.fetch(ASK)
        assert (caught.value.code, len(asked)) == ("no", 1)
    async with answering(busy) as (made, asked):
        says_no_with_200(made)
        with pytest.raises(ExchangeError, match="busy"):
            await made.gateway.fetch(ASK)
        assert len(asked) == 3


async def test_status_200_is_an_answer_where_the_exchange_says_no_with_others() -> None:
    async with answering(json_reply({"code": -1, "msg": "not a refusal"})) as (made, _):
        assert await made.gateway.fetch(ASK) == {"code": -1, "msg": "not a refusal"}


async def test_a_clock_told_in_whole_seconds_is_known_no_better() -> None:
    async with answering(json_reply({"serverTime": 0}, Date="unknown")) as (made, _):
        says_no_with_200(made)
        offset = await made.gateway.measure_clock()
        assert offset is not None
        assert offset.high_ms - offset.low_ms >= 1000


@pytest.mark.parametrize("status", [301, 404])
async def test_an_answer_that_is_not_the_exchanges_is_unexpected(status: int) -> None:
    page = web.Response(body=b"<html>", status=status, headers={"Location": "/elsewhere"})
    async with answering(page) as (made, asked):
        with pytest.raises(UnexpectedAnswer):
            await made.gateway.fetch(ASK)
        assert len(asked) == 1


async def test_the_usage_an_answer_tells_is_counted() -> None:
    async with answering(json_reply(0, X_MBX_USED_WEIGHT_1D="444")) as (made, _):
        await made.gateway.fetch(ASK)
        assert made.used() == 444


async def test_learning_adopts_the_announced_limits_and_the_clock() -> None:
    ahead_ms = 5_000

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/time"):
            return web.json_response({"serverTime": SystemClock().now_ms() + ahead_ms})
        limits = [{"rateLimitType": "REQUEST_WEIGHT", "interval": "HOUR", "intervalNum": 5,
                   "limit": 300}]  # fmt: skip
        body = {"symbols": [{"symbol": "BTCUSDT", "baseAsset": "BTC", "quoteAsset": "USDT"}],
                "rateLimits": limits}  # fmt: skip
        # Not this machine's date, which would contradict the time told.
        headers = {"X-MBX-USED-WEIGHT-5H": "123", "Date": "unknown"}
        return web.json_response(body, headers=headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made = toy(HttpTransport("http://{}:{}".format(*runner.addresses[0][:2]), Requests()))
    info = await made.gateway.learn()
    await made.gateway.aclose()
    await runner.cleanup()

    adopted = Limit(300, 5 * 3_600_000)
    assert info.limits == (adopted,)
    assert made.gate.used() == {adopted: 123}
    assert made.gateway.offset is not None
    assert abs(made.gateway.offset.middle_ms - ahead_ms) <= made.gateway.offset.error_ms + 1


@dataclass
class SlowConnect:
    """A transport whose first connection takes a while to open. Sends nothing anywhere."""

    clock: ManualClock
    connects_s: list[float]
    asked: list[tuple[str, Mapping[str, str | int]]] = field(default_factory=list)
    sent_at_ms: list[int] = field(default_factory=list)

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        self.asked.append((path, params))
        await self.clock.sleep(self.connects_s.pop(0))
        leaving()
        self.sent_at_ms.append(self.clock.now_ms())
        return Answer(200, {}, b"{}")

    async def close(self) -> None:
        pass


async def test_what_would_arrive_in_a_window_it_was_not_charged_to_is_charged_anew() -> None:
    second = Limit(amount=10, period_ms=1000)
    clock = ManualClock(900)
    transport = SlowConnect(clock, [0.5, 0.0])
    gate = LocalGate(clock, [second], guard_ms=0)
    asking = asyncio.create_task(Gateway(EXCHANGE, transport, gate, clock).fetch(ASK))
    await clock.advance(0.5)
    await asking

    assert transport.asked == [("/ask", {})] * 2
    assert transport.sent_at_ms == [1400]
    assert gate.used() == {second: 10}


async def test_a_caller_that_goes_away_before_sending_is_paid_back() -> None:
    clock = ManualClock(0)
    made = toy(SlowConnect(clock, [5.0]), clock)
    asking = asyncio.create_task(made.gateway.fetch(ASK))
    await clock.advance(1)
    assert made.used() == 10
    asking.cancel()
    await clock.advance(0)

    assert made.used() == 0


async def test_a_gateway_is_built_as_the_operator_has_set_it() -> None:
    settings = Settings(
        exchanges=Exchanges(rest_urls={"binance": "http://127.0.0.1:1"}),
        requests=Requests(attempts=2, first_delay=0.001),
    )
    facts: list[Fact] = []
    gateway = gateway_for(EXCHANGE, settings, SystemClock(), facts.append)
    with pytest.raises(NeverSent, match=r"127\.0\.0\.1:1"):
        await gateway.fetch(ASK)
    await gateway.aclose()

    assert len(facts) == 2


async def test_half_of_a_budget_used_is_told() -> None:
    facts: list[Fact] = []
    gateway = gateway_for(EXCHANGE, Settings(), ManualClock(), facts.append)
    await gateway.gate.acquire(700)
    await gateway.gate.acquire(1)
    await gateway.aclose()

    assert facts == [CapacityLow(exchange="binance", timeframe="60000ms", remaining=500)]


async def _nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    pass


async def _silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        pass


async def _cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1,")
    await writer.drain()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def test_what_depends_on_the_time_is_worded_when_it_is_sent() -> None:
    def dated(now_ms: int) -> dict[str, str | int]:
        return {"at": now_ms // 1000}

    async with answering(json_reply([1], Date="Thu, 01 Jan 2037 00:00:00 GMT")) as (made, asked):
        request = replace(ASK, params={"symbol": "BTC"}, dated=dated)
        await made.gateway.fetch(request)  # its date tells how far the exchange is ahead
        await made.gateway.fetch(request)

    first, second = (int(each.removeprefix("/ask?symbol=BTC&at=")) for each in asked)
    assert abs(first - made.gateway.clock.now_ms() // 1000) < 60
    assert abs(second - 2_114_380_800) < 60


async def test_an_exchange_without_a_clock_is_known_by_the_date_of_its_answers() -> None:
    listing = json_reply({"symbols": [], "rateLimits": []}, Date="Thu, 01 Jan 2037 00:00:00 GMT")
    async with answering(listing) as (made, asked):
        made.gateway.exchange = replace(EXCHANGE, time=None)
        await made.gateway.learn()
        learned = made.gateway.offset
        assert await made.gateway.measure_clock() is not None

    assert learned is not None
    assert asked == [EXCHANGE.info.path] * 2


async def test_one_answer_with_a_wrong_date_mutes_nobody_and_a_set_clock_is_told() -> None:
    async with answering(json_reply([1], Date="Thu, 01 Jan 2037 00:00:00 GMT")) as (made, _):
        made.gateway.offset = Offset(-5, 5, at_ms=made.gateway.clock.now_ms())
        await made.gateway.fetch(ASK)
        assert abs(made.gateway.offset.middle_ms) < 1_000
        assert not [fact for fact in made.facts if isinstance(fact, ClockStepped)]

        await made.gateway.fetch(ASK)
        assert made.gateway.offset.middle_ms > 1_000
        (told,) = (fact for fact in made.facts if isinstance(fact, ClockStepped))
        assert (told.clock, told.by_ms > 1_000) == ("exchange", True)


async def test_a_refusal_that_says_how_long_it_lasts_is_waited_out() -> None:
    async with answering(json_reply({}, status=418)) as (made, _):
        api_error = ApiError("blocked", "for five minutes", wait_ms=300_000)
        made.gateway.exchange = replace(EXCHANGE, read_api_error=lambda _body: api_error)
        before_ms = made.gateway.clock.now_ms()
        with pytest.raises(Banned) as caught:
            await made.gateway.fetch(ASK)

    assert 300_000 <= caught.value.until_ms - before_ms < 310_000


# The circuit breaker


class CountingBreaker:
    """A ``CircuitBreaker`` that opens after so many failures; and the results it was told."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.results: list[str] = []

    async def check(self) -> None:
        if not self.left:
            raise CircuitOpen("binance", retry_at_ms=1, reason="it failed")

    async def admit(self) -> AbstractContextManager[None]:
        await self.check()
        return self._sent()

    @contextmanager
    def _sent(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.results.append(type(error).__name__)
            self.left -= type(error) is ExchangeError
            raise
        self.results.append("succeeded")

    async def aclose(self) -> None: ...


async def test_after_the_breaker_opened_nothing_is_sent_or_paid() -> None:
    async with answering(json_reply({}), json_reply({}, 503)) as (made, asked):
        made.gateway.breaker = breaker = CountingBreaker(failures=2)
        await made.gateway.fetch(ASK)

        with pytest.raises(CircuitOpen):
            await made.gateway.fetch(ASK)

        assert breaker.results == ["succeeded", "ExchangeError", "ExchangeError"]
        assert (len(asked), made.used()) == (3, 30)
        with pytest.raises(CircuitOpen):
            await made.gateway.fetch(ASK)
        assert (len(asked), made.used()) == (3, 30)


async def test_a_request_that_waited_while_the_breaker_opened_is_refunded() -> None:
    async with answering(json_reply({})) as (made, asked):
        made.gateway.breaker = breaker = CountingBreaker(failures=1)
        acquire = made.gate.acquire

        async def opens_meanwhile(cost: int, category: str = "") -> GateGrant:
            grant = await acquire(cost, category)
            breaker.left = 0
            return grant

        made.gate.acquire = opens_meanwhile  # type: ignore[method-assign]
        with pytest.raises(CircuitOpen):
            await made.gateway.fetch(ASK)

        assert (asked, made.used()) == ([], 0)


async def test_latency_is_the_average_of_the_latest_responses_without_the_wait_for_the_gate() -> (
    None
):
    clock = ManualClock(1_000_000)

    class Slow:
        took_ms = 400

        async def send(
            self, _path: str, _params: Mapping[str, str | int], leaving: Callable[[], None]
        ) -> Answer:
            leaving()
            await clock.advance(self.took_ms / 1000)
            return Answer(200, {}, b"{}")

        async def close(self) -> None: ...

    slow = Slow()
    gateway = toy(slow, clock).gateway
    assert toy(slow, clock).gateway.latency_ms is None

    await gateway.fetch(ASK)
    assert gateway.latency_ms == 400
    slow.took_ms = 1200
    await gateway.fetch(ASK)
    assert gateway.latency_ms == 500
    for _ in range(40):
        await gateway.fetch(ASK)
    assert gateway.latency_ms == pytest.approx(1200, abs=20)
