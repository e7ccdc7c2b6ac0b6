"""The queue of chunks, against a list of what the exchange has."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ExchangeError
from penstock.ingest.chunks import MAX_ATTEMPTS, OPEN_BATCHES, Batch, Chunk, ChunkQueue
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.trade_pages import Covered
from penstock.market.events import Trade
from penstock.market.symbol import Symbol

SYMBOL = Symbol.parse("btc_usdt")


def trade(number: int) -> Trade:
    return Trade(
        exchange="binance", symbol=SYMBOL, received_at_ns=1, source="backfill", id=number,
        at_ns=number, price_text="1", quantity_text="2", taker="buy",
    )  # fmt: skip


def without_long_holes(ids: set[int], size: int) -> set[int]:
    """The ids, and some more, so that no chunk lacks them all."""
    filled = set(ids)
    for number in range(71):
        if filled.isdisjoint(range(number - size + 1, number + 1)):
            filled.add(number)
    return filled


def emptied(queue: ChunkQueue, answer: Callable[[ChunkQueue, Chunk], None]) -> list[Batch]:
    """All batches, with each chunk answered when it is taken."""
    batches: list[Batch] = []
    for _ in range(10_000):
        if queue.is_done:
            return batches
        if (chunk := queue.take()) is not None:
            answer(queue, chunk)
        while batch := queue.next_batch():
            batches.append(batch)
    raise AssertionError("it never ends")


@given(data=st.data())
def test_batches_are_what_exists_in_order_whatever_the_order_of_responses(data: Any) -> None:
    first, last = sorted((data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))))
    size, page = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    exist = without_long_holes(data.draw(st.sets(st.integers(0, 70))), size)
    goes_back = data.draw(st.booleans())
    queue = ChunkQueue(IdRange(first, last), size, data.draw(st.integers(1, 4)))
    random = data.draw(st.randoms(use_true_random=True))  # drawing each step takes far longer
    taken: list[Chunk] = []
    batches: list[Batch] = []
    while not queue.is_done:
        if random.random() < 0.5:
            queue.concurrency = random.randint(1, 4)
        chunk = queue.take()
        if chunk is not None:
            taken.append(chunk)
        if taken and (chunk is None or random.random() < 0.5):
            chunk = taken.pop(random.randrange(len(taken)))
            if chunk.attempt < 3 and random.randrange(10) == 0:
                queue.put_back(chunk, "429")
                continue
            # A page has so many trades, at one end of the chunk, and covers the ids up to the last.
            ids = sorted(exist & {*range(chunk.ids.first, chunk.ids.last + 1)}, reverse=goes_back)
            found, covered = ids[:page], chunk.ids
            if len(ids) > page:
                end = found[-1]
                covered = IdRange(end, covered.last) if goes_back else IdRange(covered.first, end)
            # Trades beyond the chunk, and twice the same.
            beyond = [trade(last + 1)]
            trades = [trade(each) for each in found * 2] + beyond
            queue.fetched(chunk, Covered(covered, trades))
        assert queue.rows <= OPEN_BATCHES * 4 * size
        while batch := queue.next_batch():
            batches.append(batch)

    wanted = exist & {*range(first, last + 1)}
    assert [each.id for batch in batches for each in batch.trades] == sorted(wanted)
    assert [*chain(*(range(*_span(batch.ids)) for batch in batches))] == [*range(first, last + 1)]
    absent = {*chain(*(range(*_span(part)) for batch in batches for part in batch.absent))}
    assert absent == {*range(first, last + 1)} - wanted
    assert queue.take() is None


def _span(ids: IdRange) -> tuple[int, int]:
    return ids.first, ids.last + 1


@given(st.integers(1, 500), st.integers(1, 50), st.integers(1, 9))
def test_dense_ids_take_one_request_per_page(count: int, size: int, concurrency: int) -> None:
    asked = []

    def answer(queue: ChunkQueue, chunk: Chunk) -> None:
        asked.append(chunk.ids)
        queue.fetched(chunk, Covered(chunk.ids, [trade(each) for each in range(*_span(chunk.ids))]))

    batches = emptied(ChunkQueue(IdRange(1, count), size, concurrency), answer)

    assert len(asked) == -(-count // size)
    assert len(batches) == -(-len(asked) // concurrency)


def test_no_more_chunks_are_given_out_than_fit_into_the_open_batches() -> None:
    queue = ChunkQueue(IdRange(1, 1000), 10, 4)

    taken = [queue.take() for _ in range(OPEN_BATCHES * 4)]
    assert None not in taken
    assert queue.take() is None
    for chunk in taken[4:]:
        assert chunk is not None
        queue.fetched(chunk, Covered(chunk.ids, [trade(each) for each in range(*_span(chunk.ids))]))

    assert queue.next_batch() is None, "the first batch is not complete"
    assert queue.take() is None


def test_a_chunk_that_is_put_back_is_the_next_and_counts_its_attempts() -> None:
    queue = ChunkQueue(IdRange(1, 100), 10)
    first = queue.take()
    assert first == Chunk(IdRange(1, 10))

    queue.put_back(first, "429")

    assert queue.take() == Chunk(IdRange(1, 10), attempt=2)


@pytest.mark.parametrize("covered", [IdRange(50, 59), IdRange(1, 0)], ids=["same page", "empty"])
def test_a_page_without_the_chunk_ends_with_an_error(covered: IdRange) -> None:
    queue, asked = ChunkQueue(IdRange(1, 20), 10), []

    def answer(queue: ChunkQueue, chunk: Chunk) -> None:
        asked.append(chunk)
        queue.fetched(chunk, Covered(covered, [trade(each) for each in range(*_span(covered))]))

    with pytest.raises(ExchangeError, match="ids from 1 to 10 were requested 10 times"):
        emptied(queue, answer)
    assert len(asked) == MAX_ATTEMPTS


def test_a_chunk_that_is_refused_for_ever_ends_with_an_error() -> None:
    with pytest.raises(ExchangeError, match="10 times: too fast"):
        emptied(
            ChunkQueue(IdRange(1, 20), 10), lambda queue, chunk: queue.put_back(chunk, "too fast")
        )
