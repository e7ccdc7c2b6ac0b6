"""API keys: signed requests, the limits of keys, and keys that cannot be used."""

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import ClientSession

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Exchanges, Secret, Settings, Simulator
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.manager import ConnectorManager
from penstock.errors import BadRequest, ConfigError
from penstock.exchanges import registry
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.coinbase.limits import KEYED_LIMITS, LIMITS
from penstock.exchanges.coinbase.signing import signer
from penstock.exchanges.facts import RequestsSigned
from penstock.exchanges.keyed import ApiKey
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol
from penstock.storage.state import open_store
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit

BTC = Symbol.parse("btc_usd")
SYMBOLS = SymbolMap("coinbase", [("BTC-USD", BTC)])
COINBASE = registry.load("coinbase")
SECRET = "c2ltdWxhdGVk"
Keys = dict[str, dict[str, Secret]]


def keys(exchange: str = "coinbase", **changed: str) -> Keys:
    parts = {"keys": "simulated", "secrets": SECRET, "passphrases": "simulated", **changed}
    return {f"api_{part}": {exchange: Secret(text)} for part, text in parts.items() if text}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    simulator = Simulator(port=0, symbols=("btc_usd",), uplink_ms=0, latency_ms=1)
    server = build_simulator(simulator, SystemClock(), exchange="coinbase")
    await server.start()
    yield f"http://{server.address}"
    await server.stop()


def settings(address: str = "", **exchanges: Any) -> Settings:
    urls = {"coinbase": address} if address else {}
    return Settings(exchanges=Exchanges(rest_urls=urls, **exchanges))


def test_the_signature_is_of_time_method_path_and_query() -> None:
    sign = signer(ApiKey(Secret("k"), Secret(SECRET), Secret("p")))

    headers = sign("/products/BTC-USD/trades?limit=1000&after=7", 1_700_000_000_999)

    said = b"1700000000GET/products/BTC-USD/trades?limit=1000&after=7"
    expected = hmac.new(b64decode(SECRET), said, hashlib.sha256).digest()
    assert headers == {
        "CB-ACCESS-KEY": "k",
        "CB-ACCESS-SIGN": b64encode(expected).decode(),
        "CB-ACCESS-TIMESTAMP": "1700000000",
        "CB-ACCESS-PASSPHRASE": "p",
    }


async def test_signed_requests_have_the_limit_of_keys(address: str) -> None:
    facts: list[Fact] = []
    store = await open_store("memory:")
    # The connector has the public limit, as one that was created before there was a key.
    await ConnectorManager(store).ensure_connector("coinbase")
    chosen = settings(address, **keys())
    async with aclosing(FleetGateways(store, chosen, SystemClock(), facts.append)) as gateways:
        client = await gateways.of("coinbase")
        request = COINBASE.rest(SYMBOLS).recent_trades(BTC, 3)
        await asyncio.gather(*(client.fetch(request) for _ in range(14)))

        assert tuple(client.gate.used()) == KEYED_LIMITS
    async with ClientSession() as http, http.get(f"{address}/_sim/requests") as answer:
        logged = (await answer.json())["requests"]

    assert {(row["group"], row["key"], row["status"]) for row in logged} == {
        ("private", "simulated", 200)
    }
    (told,) = [fact for fact in facts if isinstance(fact, RequestsSigned)]
    assert told.limits == ("15 per 1 s, burst 15",)


async def test_without_a_key_requests_are_not_signed_and_the_public_limit_applies(
    address: str,
) -> None:
    store = await open_store("memory:")
    async with aclosing(FleetGateways(store, settings(address), SystemClock())) as gateways:
        client = await gateways.of("coinbase")

        assert tuple(client.gate.used()) == LIMITS
    async with ClientSession() as http, http.get(f"{address}/_sim/requests") as answer:
        assert {row["group"] for row in (await answer.json())["requests"]} == {""}


async def test_an_operator_may_lower_the_limit_of_keys(address: str) -> None:
    store = await open_store("memory:")
    lower = Limit(12, 1000, "request", kind="paced", burst=5)
    await ConnectorManager(store).ensure_connector("coinbase", [lower])
    chosen = settings(address, **keys())
    async with aclosing(FleetGateways(store, chosen, SystemClock())) as gateways:
        client = await gateways.of("coinbase")

        assert tuple(client.gate.used()) == (lower,)


async def test_a_wrong_key_is_refused_without_retries(address: str) -> None:
    chosen = settings(address, **keys(passphrases="wrong"))
    async with aclosing(gateway_for(COINBASE, chosen, SystemClock())) as gateway:
        with pytest.raises(BadRequest, match="invalid passphrase") as refused:
            await gateway.measure_clock()

    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    ("exchange", "given", "problem"),
    [
        ("coinbase", keys(secrets=""), "api_secrets"),
        ("coinbase", keys(passphrases=""), "api_passphrases"),
        ("coinbase", keys(keys=""), "api_keys"),
        ("coinbase", keys(secrets="not*base64"), "not base64"),
        ("binance", keys("binance"), "not signed"),
    ],
)
def test_a_key_that_cannot_be_used_is_rejected(exchange: str, given: Keys, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as rejected:
        gateway_for(registry.load(exchange), settings("", **given), SystemClock())

    assert "not*base64" not in str(rejected.value)


def test_a_key_is_never_shown() -> None:
    shown = repr(settings("", **keys(keys="hidden", secrets="aGlkZGVu", passphrases="hidden")))

    assert "hidden" not in shown
    assert "aGlkZGVu" not in shown
