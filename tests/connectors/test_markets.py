"""What exchanges list is asked once for all processes, kept with its age, told when it changes."""

import asyncio
from typing import cast

import pytest

from penstock.clock import ManualClock
from penstock.connectors.facts import MarketsChanged
from penstock.connectors.manager import ConnectorManager
from penstock.connectors.markets import ExchangeListing, Markets, stored_listing
from penstock.errors import ConnectorPaused, ExchangeUnreachable, NoAnswer, UnknownSymbol
from penstock.exchanges.base import Info
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails, SymbolMap
from penstock.market.interval import DAY_MS
from penstock.market.symbol import Symbol
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import MARKETS
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit

BTC = ListedMarket("XXBTZUSD", Symbol.parse("btc_usd"), "BTC/USD", ("XBTUSD", "XBT/USD"))
ETH = ListedMarket("XETHZUSD", Symbol.parse("eth_usd"), "ETH/USD")
ODD = ListedMarket("ODD%", Symbol.parse("o%cc%88dd_usd"))


def listing(*listed: ListedMarket) -> Info:
    return Info(SymbolMap("somewhere", listed), ())


class Exchange:
    """An exchange that can be asked, or not; it counts how often it was."""

    def __init__(self, info: Info | None) -> None:
        self.info, self.asked = info, 0

    async def of(self, exchange_id: str) -> Gateway:
        assert exchange_id == "somewhere"
        return cast("Gateway", self)

    async def learn(self) -> Info:
        self.asked += 1
        if self.info is None:
            raise NoAnswer("nobody answers")
        return self.info


async def test_an_exchange_is_asked_once_for_all_processes(store: StateStore) -> None:
    exchange = Exchange(listing(BTC, ETH, ODD))

    first = await Markets(store, exchange).of("somewhere")
    second = await Markets(store, Exchange(None)).of("somewhere")

    assert exchange.asked == 1
    assert second.listed == first.listed == (BTC, ETH, ODD)
    assert second.find("XBT/USD") == BTC.symbol
    assert second.stream_name(BTC.symbol) == "BTC/USD"


async def test_a_hundred_who_ask_at_once_share_one_question(store: StateStore) -> None:
    exchange, silent = Exchange(listing(BTC)), Exchange(None)
    markets = Markets(store, silent)

    refused = await asyncio.gather(
        *(markets.of("somewhere") for _ in range(100)), return_exceptions=True
    )
    markets = Markets(store, exchange)
    answers = await asyncio.gather(*(markets.of("somewhere") for _ in range(100)))

    assert (silent.asked, exchange.asked) == (1, 1)
    assert all(isinstance(each, NoAnswer) for each in refused)
    assert all(set(each) == {BTC.symbol} for each in answers)


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others(
    store: StateStore,
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(Exchange):
        async def learn(self) -> Info:
            asked.set()
            await answer.wait()
            return await super().learn()

    markets = Markets(store, Slow(listing(BTC)))
    impatient, patient = (asyncio.create_task(markets.of("somewhere")) for _ in range(2))
    await asked.wait()

    impatient.cancel()
    answer.set()

    assert set(await patient) == {BTC.symbol}
    assert impatient.cancelled()


async def test_what_an_exchange_tells_of_its_markets_is_kept(
    store: StateStore, clock: ManualClock
) -> None:
    rare = ETH._replace(details=MarketDetails("0.01", None, "online"))
    info = listing(BTC, rare)._replace(timeframes=("1m", "1d"))

    await Markets(store, Exchange(info)).renew("somewhere")

    found = await stored_listing(store, "somewhere")
    assert found == ExchangeListing("somewhere", clock.now_ms(), ("1m", "1d"), (BTC, rare))
    assert (await Markets(store, Exchange(None)).of("somewhere")).listed == (BTC, rare)
    assert await stored_listing(store, "elsewhere") is None


async def test_a_listing_of_an_older_version_is_read(store: StateStore) -> None:
    await Markets(store, Exchange(listing(BTC))).of("somewhere")

    def older(document: Document) -> Document:
        new = ("details", "timeframes")
        return {name: value for name, value in document.items() if name not in new}

    await store.update(MARKETS, "somewhere", older)

    found = await stored_listing(store, "somewhere")
    assert found is not None
    assert (found.timeframes, found.markets) == ((), (BTC,))
    change = await Markets(store, Exchange(None)).refresh("somewhere", listing(BTC, ETH))
    assert change.listed == {ETH.symbol}


async def test_an_old_answer_is_asked_for_again(store: StateStore, clock: ManualClock) -> None:
    await Markets(store, Exchange(listing(BTC))).of("somewhere")
    await clock.advance(DAY_MS / 1000)

    symbols = await Markets(store, Exchange(listing(BTC, ETH))).of("somewhere")

    assert set(symbols) == {BTC.symbol, ETH.symbol}


async def test_an_old_answer_is_better_than_none(store: StateStore, clock: ManualClock) -> None:
    await Markets(store, Exchange(listing(BTC))).of("somewhere")
    await clock.advance(DAY_MS / 1000)

    assert set(await Markets(store, Exchange(None)).of("somewhere")) == {BTC.symbol}


async def test_an_exchange_that_never_told_and_is_silent_is_said_to_be(store: StateStore) -> None:
    with pytest.raises(ExchangeUnreachable):
        await Markets(store, Exchange(None)).of("somewhere")


async def test_listings_and_delistings_are_told_and_seen_by_others_within_a_minute(
    store: StateStore, clock: ManualClock
) -> None:
    facts: list[Fact] = []
    ours, theirs = (Markets(store, Exchange(listing(BTC)), facts.append) for _ in range(2))
    await ours.of("somewhere")
    await theirs.of("somewhere")

    change = await ours.refresh("somewhere", listing(ETH))

    assert change == (frozenset({ETH.symbol}), frozenset({BTC.symbol}))
    assert facts == [
        MarketsChanged(exchange="somewhere", listed=("eth_usd",), delisted=("btc_usd",))
    ]
    assert (await ours.of("somewhere")).find("eth_usd") == ETH.symbol
    await clock.advance(60)
    with pytest.raises(UnknownSymbol, match="btc_usd"):
        (await theirs.of("somewhere")).find("btc_usd")


async def test_nothing_is_told_where_nothing_changed(store: StateStore) -> None:
    facts: list[Fact] = []
    markets = Markets(store, Exchange(listing(BTC)), facts.append)

    await markets.refresh("somewhere", listing(BTC, ETH))
    await markets.refresh("somewhere", listing(ETH, BTC))

    assert facts == []


async def test_a_new_connector_has_the_limits_that_were_announced_before(
    store: StateStore,
) -> None:
    limit = Limit(7, 60_000)
    await Markets(store, Exchange(None)).refresh(
        "binance", Info(SymbolMap("binance", []), (limit,))
    )

    connector = (await ConnectorManager(store).ensure_connector("binance")).connector

    assert [each.amount for each in connector.limits] == [7]


async def test_with_its_connector_paused_an_old_answer_is_good_enough(
    store: StateStore, clock: ManualClock
) -> None:
    await Markets(store, Exchange(listing(BTC))).of("somewhere")
    await clock.advance(DAY_MS / 1000)

    class Paused(Exchange):
        async def learn(self) -> Info:
            raise ConnectorPaused("somewhere", "paused")

    assert (await Markets(store, Paused(None)).of("somewhere")).listed == (BTC,)


async def test_what_is_stored_is_had_without_asking_the_exchange(store: StateStore) -> None:
    exchange = Exchange(listing(BTC, ETH))
    assert await Markets(store, exchange).stored("somewhere") == ()
    await Markets(store, exchange).of("somewhere")
    nobody = Exchange(None)
    assert await Markets(store, nobody).stored("somewhere") == (BTC, ETH)
    assert nobody.asked == 0
