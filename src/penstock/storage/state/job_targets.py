"""The target of a job as a document, and of jobs that were written before jobs had one.

A target says what a job works on: a market, a range. Its key is one text; two live jobs of one
exchange and type never have the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


def target_key(target: object) -> str:
    """The key of a target, which is a document or a Struct: equal for equal targets."""
    return msgspec.json.encode(target, order="sorted").decode()


def with_target(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields to add to the document of a job; None if it has a target.

    Earlier versions kept the market of a job in fields of its document. The range of a gap was its
    key, or before that only in its cursor, which advances: then the rest of it is the target.
    """
    if job.get("target") is not None:
        return None
    market = {field: job.get(field) for field in ("symbol", "timeframe")}
    target = {field: value for field, value in market.items() if value is not None}
    since_ms, _, until_ms = (job.get("target_key") or "").partition("-")
    if since_ms.isdecimal() and until_ms.isdecimal():
        target |= {"since_ms": int(since_ms), "until_ms": int(until_ms)}
    elif job["type"] == "gap_backfill":
        target |= {field: job["cursor"].get(field) or 0 for field in ("since_ms", "until_ms")}
    return {"target": target, "target_key": target_key(target)}
