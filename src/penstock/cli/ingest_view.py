"""The terminal view of an ingestion, its line where there is no terminal, and its summary."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType

from penstock.cli.fitting import Column, Row, Viewport, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import duration, progress
from penstock.ingest.ingestion import Counts, Ingestion, has_ended
from penstock.ingest.products import Product
from penstock.jobs.model import Job

_COLUMNS = (
    Column("product", 0, least=12, left=True),
    Column("rows", 1, least=11),
    Column("per s", 3, least=8),
    Column("left", 2, least=12),
    Column("state", 4, left=True),
)
_TROUBLES = ("failed",)
_AT_THE_LIMIT = 0.9
"""From this share of the limit on, requests wait for it; below, they wait for responses."""


def draw_ingest(ingestion: Ingestion, viewport: Viewport) -> RenderableType:
    """The whole view."""
    title = wrapped(_total(ingestion), viewport.width, "bold")
    height = None if viewport.height is None else viewport.height - len(title)
    rows = [
        Row(_cells(ingestion, product, job), "failed" if job.state == "failed" else "")
        for product, job in _pairs(ingestion)
    ]
    return Group(*title, *table(_COLUMNS, rows, _TROUBLES, Viewport(viewport.width, height)))


def describe_ingest(ingestion: Ingestion) -> str:
    """The same in one line."""
    shown = [
        " ".join(filter(None, _cells(ingestion, product, job)))
        for product, job in _pairs(ingestion)
        if not has_ended(job)
    ]
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return "; ".join([_total(ingestion), *shown[:5]]) + more


def name_of(product: Product) -> str:
    """A product as the exchange names it, with the length of its candles."""
    return " ".join(filter(None, (product.native, product.new.timeframe)))


def limit_per_s(ingestion: Ingestion) -> float | None:
    """How many requests the limits allow; None if there is no limit."""
    rate = ingestion.rate
    return rate.requests * 1000 / rate.window_ms if rate.window_ms else None


def waits_for(ingestion: Ingestion, job: Job) -> str:
    """What a job that has not ended waits for."""
    if job.state == "waiting_rate_limit":
        return f"waits until {instant(job.next_run_at)}: {_last_detail(job, 'waiting')}"
    holder = job.lock.locked_by
    if job.state == "running" and holder != ingestion.worker.name:
        return f"held by {holder}, until {instant(job.lock.lock_until)} unless it is renewed"
    if job.state == "running":
        limit = limit_per_s(ingestion)
        is_limited = limit and ingestion.tally.requests_per_s >= limit * _AT_THE_LIMIT
        return "waits for the limit" if is_limited else "waits for responses"
    if job.attempts:
        return f"retried at {instant(job.next_run_at)} after: {job.stats.last_error}"
    if parked := _last_detail(job, "parked"):
        return f"waits: {parked}"
    return "waits for a worker"


def summary_lines(ingestion: Ingestion) -> Iterator[str]:
    """What was fetched, for each product and in total."""
    for product, job in _pairs(ingestion):
        yield f"{name_of(product)}: {'; '.join(_results(ingestion, product, job))}"
    tally = ingestion.tally
    failures = ", ".join(f"{count:,} × {what}" for what, count in sorted(tally.failures.items()))
    yield (
        f"In {duration(tally.seconds)}: {_recorded(ingestion):,} rows"
        f" ({_recorded(ingestion) / max(tally.seconds, 0.001):,.0f}/s) with {tally.requests:,}"
        f" requests ({tally.requests / max(tally.seconds, 0.001):,.1f}/s)"
        + (f"; errors: {failures}" if failures else "")
    )


def summary(ingestion: Ingestion) -> dict[str, Any]:
    """The same as a document."""
    tally, limit = ingestion.tally, limit_per_s(ingestion)
    return {
        "finished": ingestion.is_finished,
        "seconds": round(tally.seconds, 3),
        "rows": _recorded(ingestion),
        "requests": tally.requests,
        "requests_per_s": round(tally.requests / max(tally.seconds, 0.001), 3),
        "limit_per_s": None if limit is None else round(limit, 3),
        "errors": dict(tally.failures),
        "products": [
            _document(ingestion, product, job) for product, job in _pairs(ingestion)
        ],
    }  # fmt: skip


def _document(ingestion: Ingestion, product: Product, job: Job) -> dict[str, Any]:
    counts = _counts(ingestion, job)
    return {
        "product": product.native,
        "symbol": job.symbol,
        "timeframe": job.timeframe,
        "job": job.id,
        "state": job.state,
        "was_done": product.is_done,
        "rows": ingestion.recorded(job),
        "rows_in_all": job.progress.rows,
        "rows_already_there": counts.held,
        "ids_missing": counts.absent,
        "requests": counts.pages,
        "cursor": job.cursor,
        "notes": list(_skipped(job)),
        "error": job.stats.last_error if job.state == "failed" else None,
    }


def _pairs(ingestion: Ingestion) -> list[tuple[Product, Job]]:
    return list(zip(ingestion.products, ingestion.jobs.values(), strict=True))


def _total(ingestion: Ingestion) -> str:
    tally, limit = ingestion.tally, limit_per_s(ingestion)
    jobs = ingestion.jobs.values()
    done = sum(job.state == "success" for job in jobs)
    recorded = _recorded(ingestion)
    words = [
        f"{done:,} of {len(jobs):,} products done",
        f"{recorded:,} rows",
        f"{tally.requests_per_s:,.1f} requests/s"
        + (f" of {limit:,.4g}/s allowed" if limit else ""),
    ]
    if left_s := _left_s(ingestion):
        words.append(f"{duration(left_s)} left")
    return ", ".join(words)


def _left_s(ingestion: Ingestion) -> float | None:
    """How long it takes until all is done; None while it is not known."""
    kinds = ingestion.job_service.kinds
    left = [kinds[job.type].rows_left(job) for job in ingestion.jobs.values() if not has_ended(job)]
    recorded = _recorded(ingestion)
    if not left or not all(left) or not recorded:
        return None
    return sum(left) * ingestion.tally.seconds / recorded


def _cells(ingestion: Ingestion, product: Product, job: Job) -> list[str]:
    shown = progress(job, ingestion.job_service.kinds[job.type])
    if has_ended(job):
        return [name_of(product), shown.rows, "", "", _ending(product, job)]
    notes = [shown.notes, waits_for(ingestion, job)]
    return [name_of(product), shown.rows, shown.rate, shown.left, ", ".join(filter(None, notes))]


def _ending(product: Product, job: Job) -> str:
    if product.is_done:
        return f"was done at {instant(job.updated_at)}"
    if job.state == "success":
        return "done"
    return f"failed: {job.stats.last_error}" if job.state == "failed" else job.status


def _results(ingestion: Ingestion, product: Product, job: Job) -> Iterator[str]:
    if product.is_done:
        yield f"{_ending(product, job)}, {job.progress.rows:,} rows; nothing was fetched"
        return
    counts = _counts(ingestion, job)
    yield _ending(product, job) if has_ended(job) else "not finished"
    yield f"{ingestion.recorded(job):,} rows" + (
        f" of {job.progress.rows:,} in all" if ingestion.rows_before[job.id] else ""
    )
    if counts.held:
        yield f"{counts.held:,} rows were there already"
    if counts.absent:
        yield f"{counts.absent:,} ids do not exist on the exchange"
    if counts.pages:
        yield f"{counts.pages:,} pages"
    yield from _skipped(job)


def _counts(ingestion: Ingestion, job: Job) -> Counts:
    return ingestion.tally.markets.get(job.symbol or "", Counts())


def _recorded(ingestion: Ingestion) -> int:
    return sum(map(ingestion.recorded, ingestion.jobs.values()))


def _skipped(job: Job) -> Iterator[str]:
    return (event.detail for event in job.events if event.what == "skipped")


def _last_detail(job: Job, what: str) -> str:
    last = next((event for event in reversed(job.events) if event.by), None)
    return last.detail if last is not None and last.what == what else ""
