"""The terminal view of an ingestion, its line where there is no terminal, and its summary."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Group, RenderableType

from penstock.cli.fitting import Column, Row, Viewport, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import duration, progress
from penstock.ingest.ingestion import Counts, Ingestion, has_ended
from penstock.ingest.products import Product
from penstock.ingest.trade_range import TradesTarget
from penstock.jobs.model import Job

_COLUMNS = (
    Column("product", 0, least=12, left=True),
    Column("rows", 1, least=11),
    Column("per s", 4, least=8),
    Column("left", 3, least=12),
    Column("state", 2, least=22, left=True),
)
_TROUBLES = ("failed",)
_MOST_DESCRIBED = 5


class Wait(NamedTuple):
    """What a job that has not ended waits for."""

    what: str
    detail: str = ""


def draw_ingest(ingestion: Ingestion, viewport: Viewport) -> RenderableType:
    """The whole view: all products, and below them what there is to say about some."""
    pairs = _pairs(ingestion)
    title = wrapped(_total(ingestion), viewport.width, "bold")
    rows = [
        Row(_cells(ingestion, product, job), "failed" if job.state == "failed" else "")
        for product, job in pairs
    ]
    notes = [
        line
        for product, job in pairs
        for note in _notes(ingestion, job)
        for line in wrapped(f"{name_of(product)}: {note}", viewport.width)
    ]
    height = None
    if viewport.height is not None:
        height = max(3, viewport.height - len(title))
        notes = notes[: max(0, height - len(rows) - 1)]
    body = table(_COLUMNS, rows, _TROUBLES, Viewport(viewport.width, height))
    return Group(*title, *body, *notes)


def describe_ingest(ingestion: Ingestion) -> str:
    """The same in one line."""
    shown = [
        ", ".join(
            [" ".join(filter(None, _cells(ingestion, product, job))), *_notes(ingestion, job)]
        )
        for product, job in _pairs(ingestion)
        if not has_ended(job)
    ]
    rest = len(shown) - _MOST_DESCRIBED
    more = [f"and {rest} more"] if rest > 0 else []
    return "; ".join([_total(ingestion), *shown[:_MOST_DESCRIBED], *more])


def name_of(product: Product) -> str:
    """A product as the exchange names it, with the length of its candles."""
    return " ".join(filter(None, (product.native, product.new.timeframe)))


def waits_for(ingestion: Ingestion, job: Job) -> Wait:
    """What a job that has not ended waits for."""
    holder, reason = job.lock.locked_by, _last_reason(job)
    if job.state == "waiting_rate_limit":
        return Wait(f"until {instant(job.next_run_at)}", reason)
    if job.state == "running" and holder != ingestion.worker.name:
        until = instant(job.lock.lock_until)
        return Wait("for another process", f"{holder} has it, until {until} unless that is renewed")
    if job.state == "running":
        return Wait("for the limit" if ingestion.is_at_limit else "for responses")
    if suspended := ingestion.worker.suspended():
        return Wait("for disk space", suspended)
    if job.attempts:
        reason = f"retried after: {job.stats.last_error}"
        return Wait(f"until {instant(job.next_run_at)}", reason)
    return Wait("for a worker", reason)


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
    tally, limit = ingestion.tally, ingestion.limit_per_s
    return {
        "finished": ingestion.is_finished,
        "seconds": round(tally.seconds, 3),
        "rows": _recorded(ingestion),
        "rows_per_s": round(_recorded(ingestion) / max(tally.seconds, 0.001), 3),
        "requests": tally.requests,
        "requests_per_s": round(tally.requests / max(tally.seconds, 0.001), 3),
        "limit_per_s": round(limit, 3) or None,
        "errors": dict(tally.failures),
        "plan": ingestion.plans,
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
        "notes": _skipped(job),
        "error": job.stats.last_error if job.state == "failed" else None,
    }


def _pairs(ingestion: Ingestion) -> list[tuple[Product, Job]]:
    return list(zip(ingestion.products, ingestion.jobs.values(), strict=True))


def _total(ingestion: Ingestion) -> str:
    tally, limit = ingestion.tally, ingestion.limit_per_s
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
    left = [
        kinds[job.type].rows_left(job) if job.is_known else 0.0
        for job in ingestion.jobs.values()
        if not has_ended(job)
    ]
    recorded = _recorded(ingestion)
    if not left or not all(left) or not recorded:
        return None
    left_s = sum(left) * ingestion.tally.seconds / recorded
    plans = ingestion.plans
    if plans is None or not plans.rows or plans.eta_s is None:
        return left_s
    # A full budget is used up first, faster than it is refilled.
    return max(left_s, sum(left) * plans.eta_s / plans.rows)


def _cells(ingestion: Ingestion, product: Product, job: Job) -> list[str]:
    shown = progress(job, ingestion.job_service.kinds[job.type])
    if has_ended(job):
        return [name_of(product), shown.rows, "", "", _ending(product, job)]
    state = f"waits {waits_for(ingestion, job).what}"
    is_running = job.state == "running"
    speed = [shown.rate, shown.left] if is_running else ["", ""]
    return [name_of(product), shown.rows, *speed, state]


def _notes(ingestion: Ingestion, job: Job) -> Iterator[str]:
    if job.state == "failed":
        yield job.stats.last_error or ""
    if has_ended(job):
        return
    if resumed := progress(job, ingestion.job_service.kinds[job.type]).notes:
        yield resumed
    if reason := waits_for(ingestion, job).detail:
        yield reason
    yield from _skipped(job)[-1:]


def _ending(product: Product, job: Job) -> str:
    if product.is_done:
        return f"was done at {instant(job.updated_at)}"
    if job.state == "success":
        return "done"
    return "failed" if job.state == "failed" else job.status


def _results(ingestion: Ingestion, product: Product, job: Job) -> Iterator[str]:
    if product.is_done:
        yield f"{_ending(product, job)}, {job.progress.rows:,} rows; nothing was fetched"
        if isinstance(job.target, TradesTarget) and job.target.to_id is job.target.until_ms is None:
            yield f"what came since begins with --from-id {job.cursor.to_id + 1}"
        return
    counts = _counts(ingestion, job)
    ending = _ending(product, job) if has_ended(job) else "not finished"
    yield f"failed: {job.stats.last_error}" if job.state == "failed" else ending
    yield f"{ingestion.recorded(job):,} rows" + (
        f" of {job.progress.rows:,} in all" if ingestion.rows_before[job.id] else ""
    )
    if counts.held:
        yield f"{counts.held:,} rows were there already"
    if counts.absent:
        yield f"{counts.absent:,} ids do not exist on the exchange"
    if counts.pages:
        yield f"{counts.pages:,} pages"
    skipped = _skipped(job)
    yield from skipped[:_MOST_DESCRIBED]
    if len(skipped) > _MOST_DESCRIBED:
        yield f"{len(skipped) - _MOST_DESCRIBED} more: penstock jobs show {job.id}"


def _counts(ingestion: Ingestion, job: Job) -> Counts:
    return ingestion.tally.markets.get(job.symbol or "", Counts())


def _recorded(ingestion: Ingestion) -> int:
    return sum(map(ingestion.recorded, ingestion.jobs.values()))


def _skipped(job: Job) -> list[str]:
    """What of its range does not exist, as far as it is still in its history."""
    return [event.detail for event in job.events if event.what == "skipped"]


def _last_reason(job: Job) -> str:
    """Why the last run of a job ended, if it was not done."""
    last = next((event for event in reversed(job.events) if event.by), None)
    return last.detail if last is not None and last.what in ("waiting", "parked") else ""
