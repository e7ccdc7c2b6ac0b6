"""A plan of what to fetch, as lines of text."""

from penstock.ingest.planner import Plan, Plans
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_UNITS = (("d", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS), ("s", SECOND_MS))


def plan_lines(plans: Plans) -> list[str]:
    """Two lines for each range, one for each note, and one for all ranges together."""
    lines = [line for plan in plans.plans for line in _lines(plan)]
    if len(plans.plans) != 1:
        total = f"{plans.requests:,} requests, {plans.rows:,} rows, weight {plans.weight:,}"
        lines.append(
            f"in all: {total}, {plans.workers:,} markets at a time, {eta_words(plans.eta_s)}"
        )
    return lines


def _lines(plan: Plan) -> list[str]:
    what = plan.channel if plan.timeframe is None else f"{plan.channel} {plan.timeframe}"
    name = f"{plan.exchange_id} {plan.symbol} {what}"
    if not plan.requests:
        return [f"{name}: nothing to fetch", *(f"  {note}" for note in plan.notes)]
    sign = f"± {plan.rows_error:.0%} " if plan.rows_error else ""
    pages = f"{plan.requests:,} page{'s' if plan.requests > 1 else ''} × {plan.page_size:,}"
    source = plan.endpoint.replace("{}", "…")
    if plan.files:
        files = f"{plan.files:,} file{'s' if plan.files > 1 else ''}"
        source = f"{files} of {plan.file_bytes / 1e6:,.1f} MB and {source}"
    flight = "one at a time" if plan.concurrency == 1 else f"{plan.concurrency:,} at a time"
    return [
        f"{name}: {plan.rows:,} rows {sign}from {source}",
        f"  {pages} rows, weight {plan.weight:,} ({plan.weight_per_row:.2g} per row),"
        f" {flight}, {eta_words(plan.eta_s)}",
        *(f"  {note}" for note in plan.notes),
    ]


def eta_words(seconds: float | None) -> str:
    """``about 4 min 10 s``, with two units at most."""
    if seconds is None:
        return "no end: other users take the whole limit"
    left_ms, words = round(seconds) * SECOND_MS, list[str]()
    for unit, length_ms in _UNITS:
        count, left_ms = divmod(left_ms, length_ms)
        if count and len(words) < 2:
            words.append(f"{count:,} {unit}")
        elif words:
            break
    return f"about {' '.join(words)}" if words else "under a second"
