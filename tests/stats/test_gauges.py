"""Gauges: what a collector says of itself, as Prometheus reads it."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from penstock.collect.status import (
    BookStatus,
    CollectorStatus,
    ConnectionStatus,
    ShardStatus,
    StreamCount,
    StreamStatus,
    write_status,
)
from penstock.coverage.stored import GapCount, IdsStatus
from penstock.stats.gauges import CollectorGauges

MEMBER = ConnectionStatus(
    number=3, state="connected", is_primary=True, up_s=70, heard_s=0.5, asked=6, pending=1
)
BOOK = BookStatus(symbol="btc_usdt", state="stale", reason="gap", update_id=7, resyncs=2, drift=4)


def collecting() -> CollectorStatus:
    return CollectorStatus(
        exchange="toy", slot="collect-toy", pid=os.getpid(), started_ms=0, at_ms=1, state="running",
        streams=[StreamStatus(channel="trades", symbol="btc_usdt", records=70, per_second=1.0)],
        ids=[IdsStatus(channel="trades", symbol="btc_usdt", seen=[], missing=[(3, 5), (9, 9)])],
        malformed={"not_json": 2},
        refusals=[StreamCount(channel="tickers", symbol="x_usdt", count=4)],
        gaps=[GapCount(channel="trades", cause="lost", count=2)],
        books=[BOOK], reconnects={"cut off: a": 1, "cut off: b": 2}, memory_bytes=1_000,
        shards=[
            ShardStatus(
                state="connected", members=[MEMBER], rotations={"old age": 5}, waiting=9, dropped=8
            )
        ],
    )  # fmt: skip


def shown(folder: Path) -> str:
    registry = CollectorRegistry()
    registry.register(CollectorGauges(folder))
    return generate_latest(registry).decode()


def test_streams_connections_books_and_queues_are_shown(tmp_path: Path) -> None:
    write_status(tmp_path, collecting())

    text = shown(tmp_path)
    for line in (
        'penstock_records_total{channel="trades",exchange="toy",symbol="btc_usdt"} 70.0',
        'penstock_missing_ids{channel="trades",exchange="toy",symbol="btc_usdt"} 4.0',
        'penstock_malformed_frames_total{exchange="toy",reason="not_json"} 2.0',
        'penstock_refusals_total{channel="tickers",exchange="toy",symbol="x_usdt"} 4.0',
        'penstock_gaps_total{cause="lost",channel="trades",exchange="toy"} 2.0',
        'penstock_connection_uptime_seconds{exchange="toy",leg="3",shard="0"} 70.0',
        'penstock_last_message_age_seconds{exchange="toy",leg="3",shard="0"} 0.5',
        'penstock_subscriptions_asked{exchange="toy"} 6.0',
        'penstock_subscriptions_acked{exchange="toy"} 5.0',
        'penstock_reconnects_total{exchange="toy",reason="cut off"} 3.0',
        'penstock_rotations_total{exchange="toy",reason="old age"} 5.0',
        'penstock_book_state{exchange="toy",state="stale",symbol="btc_usdt"} 1.0',
        'penstock_book_state{exchange="toy",state="synced",symbol="btc_usdt"} 0.0',
        'penstock_book_resyncs_total{exchange="toy",symbol="btc_usdt"} 2.0',
        'penstock_book_drift{exchange="toy",symbol="btc_usdt"} 4.0',
        'penstock_events_waiting{exchange="toy"} 9.0',
        'penstock_copies_dropped_total{exchange="toy"} 8.0',
        'penstock_memory_bytes{exchange="toy"} 1000.0',
    ):
        assert line in text


def test_what_other_processes_say_is_theirs_to_show(tmp_path: Path) -> None:
    write_status(tmp_path, replace(collecting(), pid=os.getpid() + 1))

    assert "toy" not in shown(tmp_path)


def test_a_status_that_cannot_be_written_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("in the way")
    told = replace(collecting(), troubles={"log": "disk full"}, unrecorded=5)
    with pytest.raises(OSError, match="status"):
        write_status(tmp_path, told)

    text = shown(tmp_path)
    assert 'penstock_trouble{exchange="toy",kind="log"} 1.0' in text
    assert 'penstock_events_waiting{exchange="toy"} 14.0' in text
