"""What holds between processes: no limit is passed, no job is done twice, nobody is left out."""

import asyncio
import json
import subprocess
from collections import Counter
from typing import Any

import pytest
from tests.forked import python

from penstock.storage.state import open_store
from penstock.storage.state.schema import JOBS

PROCESSES = 8
JOB_COUNT = 80
PERIOD_MS, SPAN_MS = 500, 2_000
AMOUNT, BLOCK, USE_MS = 40, 2, 20
PACED, BURST = 36, 4
ROUNDS = 8

# A process that claims jobs until there are none, then leases from a budget that all share: blocks
# of a window, which take a while to use up, and in another task instants of a paced limit. It says
# what it got.
CHILD = f"""
import asyncio, sys
import msgspec
from penstock.clock import SystemClock
from penstock.storage.state import open_store
from penstock.storage.state.budget import LeaseRequest, PacedDemand, WindowDemand
from penstock.storage.state.documents import Add, Claim, Condition, StoreNow
from penstock.storage.state.schema import JOBS

WINDOW = LeaseRequest((WindowDemand("weight", {AMOUNT}, {PERIOD_MS}, need=1, want={BLOCK}),))
PACE = LeaseRequest(paces=(PacedDemand("calls", {PACED}, {PERIOD_MS}, burst={BURST}),))
CLAIM = Claim(
    [[Condition("state", "=", "idle"), Condition("next_run_at", "<=", StoreNow())]],
    ("priority",),
    {{"state": "running", "fence": Add(1)}},
)
clock = SystemClock()

async def lease(store, key, ask, until_ms, got):
    while True:
        grant = await store.lease(key, ask)
        if grant.now_ms >= until_ms:
            return
        if grant.ok:
            got.append((grant.at_ms, grant.blocks))
        using_ms = {USE_MS} * sum(block.tokens for block in grant.blocks)
        await clock.sleep((grant.wait_ms + using_ms) / 1000)

async def told():
    return int(await asyncio.to_thread(sys.stdin.readline))

async def main():
    store = await open_store(sys.argv[1])
    claimed, blocks, instants = [], [], []
    print("ready", flush=True)
    await told()
    while found := await store.claim(JOBS, CLAIM):
        claimed += [(job["id"], job["fence"]) for job in found]
    print("claimed", flush=True)
    begins_ms = await told()
    await clock.sleep((begins_ms - await store.now_ms()) / 1000)
    await asyncio.gather(
        lease(store, "windows", WINDOW, begins_ms + {SPAN_MS}, blocks),
        lease(store, "paces", PACE, begins_ms + {SPAN_MS}, instants),
    )
    print(msgspec.json.encode([claimed, blocks, instants]).decode(), flush=True)
    await store.close()

asyncio.run(main())
"""


async def run_together(url: str, prefix: str) -> list[list[list[Any]]]:
    """Start them, let them begin at the same instant, and return what each got."""
    store = await open_store(url)
    for number in range(JOB_COUNT):
        name = f"{prefix}{number}"
        await store.insert_if_absent(
            JOBS, {"id": name, "target": {}, "target_key": name, "status": "active",
                   "state": "idle", "next_run_at": 0, "priority": number % 3, "fence": 0},
        )  # fmt: skip
    children = [
        python("-c", CHILD, url, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    try:
        for word in ("ready", "claimed"):
            for child in children:
                assert child.stdout is not None
                assert (await asyncio.to_thread(child.stdout.readline)).strip() == word
            begins_ms = await store.now_ms() + 100
            for child in children:
                assert child.stdin is not None
                child.stdin.write(f"{begins_ms}\n")
                child.stdin.flush()
        said = await asyncio.gather(*(asyncio.to_thread(child.communicate) for child in children))
    finally:
        for child in children:
            child.kill()
            child.communicate()
    await store.close()
    return [json.loads(out) for out, _ in said]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)
async def test_eight_processes_share_jobs_and_budgets_exactly(url: str, backend: str) -> None:
    """What may not happen happens in no round; what needs a machine that keeps up, in one."""
    for begun in range(ROUNDS):
        is_shared = judge(await run_together(url, f"{begun}:"), f"{begun}:")
        # Processes that race for a version with its stand-in lose most of their time; see the docs.
        if is_shared or backend == "mongodb":
            return
    pytest.fail("in no round was the whole budget used, and everybody given their share")


def judge(got: list[list[list[Any]]], prefix: str) -> bool:
    """No limit is passed and no job done twice; whether all was used, by everybody alike."""
    claimed = [tuple(job) for claims, _, _ in got for job in claims]
    assert sorted(claimed) == sorted((f"{prefix}{number}", 1) for number in range(JOB_COUNT))

    taken = Counter[int]()
    for _, blocks, _ in got:
        for _, ((window, tokens),) in blocks:
            taken[window] += tokens
    assert max(taken.values()) <= AMOUNT
    instants = sorted(at_ms for _, _, sent in got for at_ms, _ in sent)
    for first, last in zip(instants, instants[PACED + BURST :], strict=False):
        assert last - first >= PERIOD_MS, "more in a period than its amount and burst"

    whole = sorted(taken)[1:-1]
    used = sum(taken[window] for window in whole) / (AMOUNT * len(whole))
    shares = [
        [len(sent) for _, _, sent in got],
        [sum(tokens for _, ((_, tokens),) in blocks) for _, blocks, _ in got],
    ]
    print(f"used {used:.0%}; instants and tokens per process:", *shares)
    return (
        used >= 0.97
        and len(instants) >= 0.9 * PACED * SPAN_MS / PERIOD_MS
        # Nobody gets twice the fair share, and nobody is left out.
        and all(max(share) <= 2 * sum(share) / PROCESSES for share in shares)
        and all(min(share) >= 0.4 * sum(share) / PROCESSES for share in shares)
    )
