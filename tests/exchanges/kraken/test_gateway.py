"""Kraken through the gateway: what it says with status 200 is understood as what it means."""

from collections.abc import Callable, Mapping

import pytest

from penstock.clock import ManualClock
from penstock.errors import BadRequest, ExchangeError, RateLimited, UnexpectedAnswer
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.kraken import EXCHANGE
from penstock.exchanges.kraken.rest import TIME as ASK_TIME
from penstock.exchanges.transport import Answer
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.throttle.gate import GateGrant
from penstock.throttle.local_gate import LocalGate

TIME = b'{"error":[],"result":{"unixtime":1762820224,"rfc1123":"Tue, 11 Nov 25 00:17:04 +0000"}}'


class Bodies:
    """A transport that answers everything with 200 and the next body."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies, self.paths = list(bodies), list[str]()

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        self.paths.append(path)
        return Answer(200, {}, self.bodies.pop(0))

    async def close(self) -> None:
        pass


def gateway(*bodies: bytes) -> tuple[Gateway, Bodies]:
    clock, transport = ManualClock(), Bodies(*bodies)
    gate = LocalGate(clock, EXCHANGE.limits(0), acquire_timeout_ms=1000)
    return Gateway(EXCHANGE, transport, gate, clock, Backoff(attempts=1)), transport


@pytest.mark.parametrize(
    "error",
    ["EGeneral:Too many requests", "EAPI:Rate limit exceeded", "EGeneral:Temporary lockout"],
)
async def test_a_limit_inside_a_200_stops_everybody(error: str) -> None:
    made, transport = gateway(b'{"error":["%s"]}' % error.encode(), TIME)
    with pytest.raises(RateLimited, match=error.partition(":")[2]) as caught:
        await made.fetch(ASK_TIME)
    with pytest.raises(RateLimited):
        await made.fetch(ASK_TIME)

    assert transport.bodies == [TIME], "nothing was sent meanwhile"
    assert caught.value.retry_at_ms >= made.clock.now_ms() + 1000


async def test_an_unknown_pair_inside_a_200_is_a_bad_request() -> None:
    made, _ = gateway(b'{"error":["EQuery:Unknown asset pair"]}', TIME)
    with pytest.raises(BadRequest, match="Unknown asset pair") as caught:
        await made.fetch(EXCHANGE.info)

    assert caught.value.code == "EQuery"
    assert await made.fetch(ASK_TIME) == 1_762_820_224_000, "others may go on asking"


async def test_names_of_assets_are_asked_for_before_what_is_listed_and_paid_for() -> None:
    assets = b'{"error":[],"result":{"XXDG":{"altname":"XDG"},"ZUSD":{"altname":"USD"}}}'
    pairs = (
        b'{"error":[],"result":{"XDGUSD":{"altname":"XDGUSD","wsname":"OLD/USD","base":"XXDG",'
        b'"quote":"ZUSD"}}}'
    )
    made, transport = gateway(TIME, assets, pairs)
    acquire, paid = made.gate.acquire, list[int]()

    async def counting(cost: int = 1, category: str = "") -> GateGrant:
        paid.append(cost)
        return await acquire(cost, category)

    made.gate.acquire = counting  # type: ignore[method-assign]

    info = await made.learn()

    assert [*info.symbols] == [Symbol("DOGE", "USD")]
    assert transport.paths == ["/0/public/Time", "/0/public/Assets", "/0/public/AssetPairs"]
    assert paid == [1, 1, 1]


async def test_a_busy_service_inside_a_200_is_a_failure() -> None:
    made, _ = gateway(b'{"error":["EService:Busy"]}')
    with pytest.raises(ExchangeError, match="Busy") as caught:
        await made.fetch(ASK_TIME)
    assert type(caught.value) is ExchangeError


async def test_a_page_of_html_with_status_200_is_unexpected() -> None:
    made, _ = gateway(b"<!DOCTYPE html><html>Just a moment...</html>")
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        await made.fetch(EXCHANGE.info)
