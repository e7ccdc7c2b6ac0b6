"""The judge: what is missing, doubled or wrong is found, whoever knows of it.

Trades whose ids are not the ledger's are known by all that is on them.
"""

from collections.abc import AsyncIterator, Callable
from decimal import Decimal

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator.judge import Evidence, Findings, Judge, SeenTrade, total

SLUG = "btc_usdt"


@pytest_asyncio.fixture
async def simulated() -> AsyncIterator[tuple[Judge, list[SeenTrade]]]:
    """A judge, and the last thousand trades there were."""
    server = build_simulator(Simulator(port=0, symbols=(SLUG,)), SystemClock())
    await server.start()
    address = f"http://{server.address}"
    try:
        async with ClientSession() as http:
            yield Judge(http, address), await _trades(http, address)
    finally:
        await server.stop()


async def _trades(http: ClientSession, address: str) -> list[SeenTrade]:
    async def ask(what: str, **query: str | int) -> dict[str, object]:
        async with http.get(f"{address}/_sim/{what}", params=query) as answer:
            answer.raise_for_status()
            found: dict[str, object] = await answer.json()
            return found

    now_ms = (await ask("state"))["at_ms"]
    assert isinstance(now_ms, int)
    end = (await ask("ledger/ids", symbol=SLUG, at_ms=now_ms))["next_trade_id"]
    assert isinstance(end, int)
    rows = (await ask("ledger/trades", symbol=SLUG, from_id=end - 1000, limit=1000))["trades"]
    assert isinstance(rows, list)
    return [
        SeenTrade(
            row["id"],
            row["at_ms"],
            Decimal(row["price"]),
            Decimal(row["quantity"]),
            row["taker_buys"],
        )
        for row in rows
    ]


@pytest.fixture
def asked(simulated: tuple[Judge, list[SeenTrade]]) -> tuple[Judge, list[SeenTrade]]:
    """The same trades under ids of somebody's own making."""
    judge, trades = simulated
    return judge, [
        trade._replace(id=trade.at_ms * 10_000 + number) for number, trade in enumerate(trades)
    ]


async def judged(judge: Judge, trades: list[SeenTrade]) -> Findings:
    return await judge.judge({SLUG: Evidence(trades=trades, consecutive=False)})


async def test_it_says_which_exchange_is_simulated(
    asked: tuple[Judge, list[SeenTrade]],
) -> None:
    judge, _ = asked
    assert await judge.exchange() == "binance"


async def test_all_trades_in_any_order_are_complete(asked: tuple[Judge, list[SeenTrade]]) -> None:
    judge, trades = asked
    findings = await judged(judge, trades[::-1])

    assert findings.clean
    assert findings.trades == 1000


async def test_a_hole_that_no_id_shows_is_counted_and_held_against_nobody(
    asked: tuple[Judge, list[SeenTrade]],
) -> None:
    judge, trades = asked
    findings = await judged(judge, trades[:500] + trades[507:])

    assert (findings.trades_missing, findings.gaps_unknowable) == (7, 7)
    assert findings.honest
    assert not findings.clean


async def test_a_hole_is_held_against_who_does_not_know_of_it(
    simulated: tuple[Judge, list[SeenTrade]],
) -> None:
    judge, trades = simulated
    lost = trades.pop(500).id
    unaware = await judge.judge({SLUG: Evidence(trades=trades)})
    aware = await judge.judge({SLUG: Evidence(trades=trades, missing=[(lost, lost)])})

    assert (unaware.trades_missing, unaware.gaps_unlisted, unaware.honest) == (1, 1, False)
    assert (aware.trades_missing, aware.gaps_unlisted, aware.honest) == (1, 0, True)


Doctor = Callable[[list[SeenTrade]], list[SeenTrade]]


@pytest.mark.parametrize(
    ("doctor", "wrong"),
    [
        (lambda trades: [*trades, trades[500]], {"trades_duplicated": 1}),
        (
            lambda trades: [*trades, trades[500]._replace(id=7)],
            {"trades_wrong": 1},
        ),
        (
            lambda trades: [*trades[:500], trades[500]._replace(price=Decimal(1)), *trades[501:]],
            {"trades_wrong": 1, "trades_missing": 1, "gaps_unknowable": 1},
        ),
        (
            lambda trades: [*trades, trades[-1]._replace(id=7, at_ms=trades[-1].at_ms + 10**9)],
            {"trades_wrong": 1},
        ),
    ],
    ids=["twice", "twice under another id", "altered", "not yet"],
)
async def test_what_is_wrong_is_found_out(
    asked: tuple[Judge, list[SeenTrade]], doctor: Doctor, wrong: dict[str, int]
) -> None:
    judge, trades = asked
    findings = await judged(judge, doctor(trades))

    assert not findings.honest
    for name, count in wrong.items():
        assert getattr(findings, name) == count, name


def test_the_total_adds_everything_up() -> None:
    one, other = Findings(trades=3, books_synced=1), Findings(trades=4, http_429=1)

    assert total([one, other]) == Findings(trades=7, books_synced=1, http_429=1)
    assert total([]) == Findings()
