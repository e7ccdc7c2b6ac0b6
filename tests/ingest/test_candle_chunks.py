"""The queue of chunks of candles, against a list of what the exchange has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ExchangeError
from penstock.ingest.candle_chunks import EMPTY_CHUNKS, CandleChunk, CandleChunkQueue
from penstock.ingest.chunks import MAX_ATTEMPTS, OPEN_BATCHES
from penstock.market.events import Candle
from penstock.market.symbol import Symbol

SYMBOL = Symbol.parse("btc_usdt")
MINUTE_MS = 60_000


def candle(minute: int) -> Candle:
    open_ms = minute * MINUTE_MS
    return Candle(
        exchange="binance", symbol=SYMBOL, received_at_ns=1, source="rest", interval="1m",
        open_ms=open_ms, close_ms=open_ms + MINUTE_MS - 1, open_text="1", high_text="1",
        low_text="1", close_text="1", volume_text="1", closed=True,
    )  # fmt: skip


def page(chunk: CandleChunk, exist: set[int]) -> list[Candle]:
    minutes = range(chunk.start_ms // MINUTE_MS, chunk.end_ms // MINUTE_MS)
    return [candle(minute) for minute in minutes if minute in exist]


@given(data=st.data())
def test_batches_are_what_exists_in_order_whatever_the_order_of_responses(data: Any) -> None:
    first, end = sorted((data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))))
    size, exist = data.draw(st.integers(1, 9)), data.draw(st.sets(st.integers(0, 70)))
    queue = CandleChunkQueue((first * MINUTE_MS, end * MINUTE_MS), size * MINUTE_MS)
    queue.concurrency = most = data.draw(st.integers(1, 4))
    random = data.draw(st.randoms(use_true_random=True))  # drawing each step takes far longer
    taken: list[CandleChunk] = []
    found: list[int] = []
    reached_ms, empty = first * MINUTE_MS, 0
    for _ in range(10_000):
        chunk = queue.take()
        if chunk is not None:
            taken.append(chunk)
        elif not taken:
            break
        if taken and (chunk is None or random.random() < 0.5):
            chunk = taken.pop(random.randrange(len(taken)))
            if random.randrange(10) == 0:
                queue.put_back(chunk, "no room", was_sent=False)
                continue
            queue.fetched(chunk, page(chunk, exist))
        assert queue.rows <= OPEN_BATCHES * most * size
        while batch := queue.next_batch():
            assert batch.start_ms == reached_ms, "batches follow one another"
            reached_ms = batch.end_ms
            found += [each.open_ms // MINUTE_MS for rows in batch.pages for each in rows]
            for rows in batch.pages:
                empty = 0 if rows else empty + 1

    assert found == [n for n in range(first, reached_ms // MINUTE_MS) if n in exist]
    assert queue.is_done == (reached_ms == end * MINUTE_MS)
    assert queue.is_done or any(
        exist.isdisjoint(range(at, at + size)) for at in range(first, end)
    ), "only a long silence ends it early"


def test_a_long_silence_ends_it() -> None:
    queue, requests = CandleChunkQueue((0, 100 * MINUTE_MS), MINUTE_MS), 0
    while chunk := queue.take():
        requests += 1
        queue.fetched(chunk, page(chunk, {0}))
        queue.next_batch()

    assert requests == 1 + EMPTY_CHUNKS
    assert not queue.is_done


def test_a_chunk_that_is_refused_for_ever_ends_with_an_error() -> None:
    queue = CandleChunkQueue((0, 100 * MINUTE_MS), MINUTE_MS)

    for attempt in range(1, MAX_ATTEMPTS):
        chunk = queue.take()
        assert chunk == CandleChunk(0, MINUTE_MS, attempt), "it is the next"
        queue.put_back(chunk, "too fast")

    chunk = queue.take()
    assert chunk is not None
    with pytest.raises(ExchangeError, match="10 times: too fast"):
        queue.put_back(chunk, "too fast")
