"""What the view of an ingestion says of each state of a job, drawn or in lines."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
from rich.console import Console
from tests.jobs_made import made_job

from penstock.cli import running
from penstock.cli.fitting import Viewport
from penstock.cli.ingest_view import describe_ingest, draw_ingest, summary_lines
from penstock.cli.running import View, show_until
from penstock.clock import ManualClock
from penstock.exchanges.facts import RequestSent
from penstock.ingest.facts import BatchRecorded
from penstock.ingest.ingestion import Ingestion, Tally
from penstock.ingest.products import Product
from penstock.ingest.registry import kinds
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import Job, JobEvent, JobLock, JobProgress, JobStats, NewJob
from penstock.throttle.gate import Limit

ME = "here/ingest-0/1"
SENT = RequestSent(exchange="binance", path="/", cost=1, status=200, took_ms=5)


def job(**fields: Any) -> Job:
    cursor = TradesCursor(from_id=1, to_id=1000, is_resolved=True, last_id=400)
    made = made_job("trades_backfill", cast("Any", TradesCursor()), timeframe=None)
    return replace(made, cursor=cursor, **fields)


def ingestion(job: Job, clock: ManualClock, used: int = 0) -> Ingestion:
    new = NewJob(exchange_id="binance", type="trades_backfill", symbol="BTC/USDT")
    return Ingestion(
        [Product(new, "BTCUSDT")],
        {job.id: job},
        cast("Any", SimpleNamespace(name=ME, suspended=str)),
        cast("Any", SimpleNamespace(kinds=kinds())),
        clock,
        Tally(clock),
        lambda: {Limit(1000, 60_000): used},
        limit_per_s=10.0,
    )


def shown(found: Ingestion) -> str:
    """The view, without the breaks of long lines."""
    console = Console(width=80, color_system=None)
    with console.capture() as frame:
        console.print(draw_ingest(found, Viewport(80, 20)))
    return frame.get().replace("\n  ", " ")


WAITING = (JobEvent(at=1, what="waiting", detail="locked by far/work-0/7", by=ME),)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "running", "lock": JobLock(locked_by=ME)}, ["waits for responses"]),
        (
            {"state": "running", "lock": JobLock(locked_by="far/work-0/7", lock_until=60_000)},
            ["waits for another process", "far/work-0/7 has it, until 1970-01-01 00:01:00 UTC"],
        ),
        (
            {"state": "waiting_rate_limit", "next_run_at": 60_000, "events": WAITING},
            ["waits until 1970-01-01 00:01:00 UTC", "locked by far/work-0/7"],
        ),
        ({"state": "queued", "events": WAITING}, ["waits for a worker", "locked by far/work-0/7"]),
        (
            {"attempts": 1, "next_run_at": 60_000, "stats": JobStats(last_error="no answer")},
            ["waits until 1970-01-01 00:01:00 UTC", "retried after: no answer"],
        ),
        (
            {"state": "failed", "stats": JobStats(last_error="no answer")},
            ["failed", "BTCUSDT: no answer"],
        ),
        (
            {"progress": JobProgress(rows=400, pages=4, resumptions=1, resumed_at=60_000)},
            ["400", "resumed at 1970-01-01 00:01:00 UTC"],
        ),
    ],
)
def test_a_product_shows_what_it_waits_for(fields: dict[str, Any], said: list[str]) -> None:
    found = ingestion(job(**fields), ManualClock())

    assert all(each in shown(found) for each in said), shown(found)


async def test_at_nine_tenths_of_the_limit_it_waits_for_the_limit() -> None:
    clock = ManualClock()
    found = ingestion(job(state="running", lock=JobLock(locked_by=ME)), clock)
    for _ in range(90):
        found.tally(SENT)
    await clock.advance(10)

    assert "waits for the limit" in shown(found)
    assert "9.0 requests/s of 10/s allowed" in describe_ingest(found)


def test_with_a_window_used_up_it_waits_for_the_limit() -> None:
    running = job(state="running", lock=JobLock(locked_by=ME))

    assert "waits for responses" in shown(ingestion(running, ManualClock(), used=800))
    assert "waits for the limit" in shown(ingestion(running, ManualClock(), used=950))


def test_the_summary_counts_this_run_and_all() -> None:
    found = ingestion(job(progress=JobProgress(rows=400)), ManualClock())
    batch = BatchRecorded(exchange="binance", symbol="BTC/USDT", recorded=500, held=100, absent=3)
    found.tally(batch)
    (key,) = found.jobs
    found.jobs[key] = job(state="success", progress=JobProgress(rows=900))

    product, total = summary_lines(found)

    assert product == (
        "BTCUSDT: done; 500 rows of 900 in all; 100 rows were there already; 3 ids do not exist on"
        " the exchange"
    )
    assert "500 rows" in total


def test_one_that_was_done_without_an_end_says_where_later_trades_begin() -> None:
    done = job(state="success", progress=JobProgress(rows=900), updated_at=60_000)
    found = ingestion(done, ManualClock())
    found.products = [found.products[0]._replace(job=done)]

    product, _ = summary_lines(found)

    assert product == (
        "BTCUSDT: was done at 1970-01-01 00:01:00 UTC, 900 rows; nothing was fetched; what came"
        " since begins with --from-id 1001"
    )


def test_many_notes_are_counted() -> None:
    events = tuple(JobEvent(at=1, what="skipped", detail=f"id {n}", by=ME) for n in range(9))
    found = ingestion(job(state="success", events=events), ManualClock())

    product, _ = summary_lines(found)

    assert product.endswith("id 4; 4 more: penstock jobs show j")


async def test_without_a_terminal_there_is_a_line_every_thirty_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, stop, lines = ManualClock(), asyncio.Event(), list[str]()
    monkeypatch.setattr(running, "log_info", lambda _event, now: lines.append(now))
    found = ingestion(job(), clock)
    view = View(lambda viewport: draw_ingest(found, viewport), lambda: describe_ingest(found))
    showing = asyncio.create_task(show_until(stop, clock, view._replace(line_s=30.0)))

    for _ in range(200):
        await asyncio.sleep(0)
        await clock.advance(0.5)

    stop.set()
    await showing
    assert len(lines) == 3
    assert lines[0].startswith("0 of 1 products done, 0 rows, 0.0 requests/s of 10/s allowed; BTCU")
