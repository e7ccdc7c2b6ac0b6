"""Product locks over HTTP."""

import pytest
from tests.jobs_made import made_job

from penstock.clock import SystemClock
from penstock.errors import LockLost
from penstock.jobs.model import JobLock
from penstock.jobs.product_locks import ProductLocks

from .conftest import Client

KEY = "product:kraken:BTC/USD"


async def test_locks_are_listed_and_released(api: Client) -> None:
    assert (await api.ask("GET", "locks")).json == []
    job = made_job("markets_refresh", lock=JobLock(locked_by="host-b/work-0/7"))
    held = await ProductLocks(api.app_state.store, SystemClock()).take(KEY, job)

    (shown,) = (await api.ask("GET", "locks")).json
    assert (shown["key"], shown["holder"], shown["job_id"]) == (KEY, "host-b/work-0/7", "j")
    assert shown["since"] < shown["until"]

    released = await api.ask("POST", "locks/release", {"key": KEY})
    assert (released.status, released.json) == (200, shown)
    assert (await api.ask("GET", "locks")).json == []
    (await api.ask("POST", "locks/release", {"key": KEY})).is_problem(404)
    with pytest.raises(LockLost):
        await held.check()
