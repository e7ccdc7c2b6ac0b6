"""Jobs as the service would make them, for tests that have no store."""

from typing import Any

from penstock.ingest.registry import kinds
from penstock.jobs.kinds import Market
from penstock.jobs.model import Cursor, Job
from penstock.storage.state.job_targets import target_key


def made_job(type_: str, cursor: Cursor | None = None, **fields: Any) -> Job:
    """A job of a kind; by default of BTC/USDT by the minute, where a kind has a market."""
    kind, cursor = kinds()[type_], cursor or Cursor()
    market = Market() if type_ == "markets_refresh" else Market("BTC/USDT", "1m")
    given = {name: fields.pop(name) for name in Market._fields if name in fields}
    target = kind.target(market._replace(**given), cursor)
    times = {"next_run_at": 0, "created_at": 0, "updated_at": 0}
    return Job(
        **{
            "id": "j", "exchange_id": "binance", "type": type_, "priority": kind.priority, **times,
            **kind.market(target)._asdict(), "target": target, "target_key": target_key(target),
            "cursor": cursor, **fields,
        }
    )  # fmt: skip
