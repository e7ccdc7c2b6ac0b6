"""Long answers in pieces: nobody on the loop waits for a whole one."""

import asyncio
import sys
import time
from collections.abc import Callable, Generator, Iterator
from functools import cache
from types import FrameType
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.simulator.conftest import Serve, ToyExchange
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator import registry
from penstock.simulator.engine.exchange import Asked, Route, SimulatedExchange
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.turns import in_turns
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Market, library_of
from penstock.simulator.market.pieces import PIECE, Work, finished, joined, listed

AS_OF_MS = 1_741_178_096_789
SYMBOLS = {"coinbase": "1inch_usd", "binance": "1inch_usdt"}
MOST_CALLS = 20 * PIECE
"""In one piece. A whole book by orders has many times as many here, and a busy one millions."""


@cache
def _market(exchange: str) -> Market:
    (listing,) = registry.catalogue(exchange).find([SYMBOLS[exchange]])
    return Market(listing, 7, library_of(listing))


@cache
def _exchange(name: str) -> SimulatedExchange:
    return registry.build(name, [_market(name)], Simulator())


def _rest(exchange: str, path: str, **query: str) -> object:
    asked = Asked(query, {"User-Agent": "tests"})
    return _exchange(exchange).routes[path].answer(asked, AS_OF_MS)


def _opening(exchange: str, stream: str) -> object:
    feed = _exchange(exchange).feed(stream, "")
    assert feed is not None
    assert feed.opening is not None
    return feed.opening(AS_OF_MS)


def _ledger(question: str, **query: str) -> object:
    ledger = Ledger([_market("binance")], SystemClock())
    return ledger.answer_in_turns(question, {"symbol": SYMBOLS["binance"], **query})


def _coinbase_book(level: str) -> object:
    return _rest("coinbase", "/products/{product}/book", product="1INCH-USD", level=level)


def _calls_by_piece(work: Generator[None, None, object]) -> list[int]:
    """How many calls of Python functions each piece makes: work, whatever the machine."""
    calls = [0]

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        calls[-1] += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in work:
            calls.append(0)
    finally:
        sys.setprofile(before)
    return calls


def _book() -> object:
    book = Book(_market("coinbase"))
    return book.at_in_turns(book.update_id(AS_OF_MS // Book.SLOT_MS), 1_000_000)


LONG_ANSWERS: dict[str, Callable[[], object]] = {
    "levels of a book": _book,
    "coinbase book by price": lambda: _coinbase_book("2"),
    "coinbase book by order": lambda: _coinbase_book("3"),
    "coinbase level2 snapshot": lambda: _opening("coinbase", "level2:1INCH-USD"),
    "binance depth": lambda: _rest("binance", "/api/v3/depth", symbol="1INCHUSDT", limit="5000"),
    "ledger book": lambda: _ledger("book", at_ms=str(AS_OF_MS), depth="100000"),
    "ledger trades": lambda: _ledger("trades", limit="2000"),
    "ledger agg_trades": lambda: _ledger("agg_trades", limit="2000"),
}


@pytest.mark.parametrize("name", LONG_ANSWERS)
def test_no_piece_of_a_long_answer_is_long(name: str) -> None:
    next(_work(LONG_ANSWERS[name]()))  # days that the market has not been asked for are made once

    calls = _calls_by_piece(_work(LONG_ANSWERS[name]()))

    assert max(calls) <= min(MOST_CALLS, sum(calls) // 3), (len(calls), max(calls), sum(calls))


def _work(answer: object) -> Work[object]:
    assert isinstance(answer, Generator)
    return answer


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_a_turn_follows_each_whole_piece_and_nothing_is_lost(count: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(count):
            taken.append(number)
            yield number

    work = listed(items())
    seen = [len(taken) for _ in work]

    assert seen == [PIECE * (number + 1) for number in range(count // PIECE)]
    assert finished(listed(range(count))) == taken == [*range(count)]
    assert finished(joined(map(str, range(count)))) == ",".join(map(str, range(count)))


async def test_others_have_a_turn_after_every_so_many_pieces() -> None:
    turns: list[int] = []

    def work() -> Work[str]:
        for _ in range(10):
            turns.append(0)
            yield
        return "done"

    async def others() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    turns.clear()
    assert await in_turns(work(), SystemClock(), pieces=4) == "done"
    beside.cancel()

    assert turns == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0]


class Slow(ToyExchange):
    """Has answers that end when they are let."""

    def __init__(self, settings: Simulator) -> None:
        super().__init__(settings)
        self.may_end, self.begun = False, asyncio.Event()
        self.under_way = self.most_under_way = 0
        self.in_this_round = self.most_in_a_round = 0
        long = Route("/long", lambda _: 1, lambda _, __: self._long())
        short = Route("/short", lambda _: 1, lambda _, __: self._short())
        self.routes = {**self.routes, "/long": long, "/short": short}

    def _long(self) -> Work[bytes]:
        self.begun.set()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        while not self.may_end:
            yield
        yield
        self.under_way -= 1
        return b"{}"

    def _short(self) -> bytes:
        self.in_this_round += 1
        self.most_in_a_round = max(self.most_in_a_round, self.in_this_round)
        time.sleep(0.005)  # so that others are due when it ends
        return b"{}"

    async def count_rounds(self) -> None:
        while True:
            self.in_this_round = 0
            await asyncio.sleep(0)


async def _status(session: ClientSession, url: str) -> int:
    async with asyncio.timeout(PATIENCE_S), session.get(url) as response:
        await response.read()
        return response.status


async def _serve_slow(serve: Serve) -> tuple[Slow, str]:
    made: list[Slow] = []

    def make(settings: Simulator) -> Slow:
        made.append(Slow(settings))
        return made[0]

    server = await serve(toy=make)
    return made[0], f"http://{server.address}"


async def test_questions_and_short_answers_do_not_wait_for_long_ones(
    serve: Serve, session: ClientSession
) -> None:
    slow, address = await _serve_slow(serve)
    long = [asyncio.create_task(_status(session, f"{address}/long")) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while await _in_flight(session, address) < 3 or not slow.under_way:
            pass

    assert await _status(session, f"{address}/time") == 200
    assert await _status(session, f"{address}/_sim/connections") == 200
    assert not any(task.done() for task in long)
    slow.may_end = True

    assert await asyncio.gather(*long) == [200] * 3
    assert slow.most_under_way == 1


async def _in_flight(session: ClientSession, address: str) -> int:
    async with session.get(f"{address}/_sim/state") as response:
        state: dict[str, Any] = await response.json()
        return int(state["in_flight"])


async def test_a_client_that_leaves_makes_room_for_the_next_long_answer(
    serve: Serve, session: ClientSession
) -> None:
    slow, address = await _serve_slow(serve)
    left = asyncio.create_task(_status(session, f"{address}/long"))
    async with asyncio.timeout(PATIENCE_S):
        await slow.begun.wait()
    left.cancel()
    async with asyncio.timeout(PATIENCE_S):
        while await _in_flight(session, address):
            pass
    slow.may_end = True

    assert await _status(session, f"{address}/long") == 200


async def test_of_many_answers_of_some_milliseconds_the_loop_makes_one_a_round(
    serve: Serve, session: ClientSession
) -> None:
    slow, address = await _serve_slow(serve)
    rounds = asyncio.create_task(slow.count_rounds())

    asked = [_status(session, f"{address}/short") for _ in range(30)]

    assert await asyncio.gather(*asked) == [200] * 30
    assert slow.most_in_a_round == 1
    rounds.cancel()
