"""The status of a collector in short."""

from penstock.collect.status import CollectorStatus, StreamStatus
from penstock.collect.summary import summarize


def test_what_was_counted_has_the_time_of_the_count() -> None:
    streams = [
        StreamStatus(channel=channel, symbol="btc_usdt", records=records, per_second=1.0)
        for channel, records in (("trades", 5), ("book_deltas", 7))
    ]
    status = CollectorStatus(
        exchange="toy", slot="a", pid=1, started_ms=0, at_ms=12_345, state="running",
        streams=streams,
    )  # fmt: skip

    [found] = summarize(status).exchanges

    assert (found.messages, found.counted_ms, found.markets) == (12, 12_345, 1)
