"""Kraken through the gateway: what it says with status 200 is understood as what it means."""

from collections.abc import Callable, Mapping

import pytest

from penstock.clock import ManualClock
from penstock.errors import BadRequest, ExchangeError, RateLimited, UnexpectedAnswer
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.http import Answer
from penstock.exchanges.kraken import EXCHANGE
from penstock.exchanges.kraken.rest import TIME as ASK_TIME
from penstock.resilience.backoff import Backoff
from penstock.throttle.local_gate import LocalGate

TIME = b'{"error":[],"result":{"unixtime":1762820224,"rfc1123":"Tue, 11 Nov 25 00:17:04 +0000"}}'


class Bodies:
    """A transport that answers everything with 200 and the next body."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        return Answer(200, {}, self.bodies.pop(0))

    async def close(self) -> None:
        pass


def gateway(*bodies: bytes) -> tuple[Gateway, Bodies]:
    clock, transport = ManualClock(), Bodies(*bodies)
    gate = LocalGate(clock, EXCHANGE.limits(0), patience_ms=1000)
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


async def test_a_busy_service_inside_a_200_is_a_failure() -> None:
    made, _ = gateway(b'{"error":["EService:Busy"]}')
    with pytest.raises(ExchangeError, match="Busy") as caught:
        await made.fetch(ASK_TIME)
    assert type(caught.value) is ExchangeError


async def test_a_page_of_html_with_status_200_is_unexpected() -> None:
    made, _ = gateway(b"<!DOCTYPE html><html>Just a moment...</html>")
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        await made.fetch(EXCHANGE.info)
