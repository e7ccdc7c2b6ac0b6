"""Four exchanges at a thousand ticks a second, and a Redis that is killed and paused meanwhile.

What is stored is compared with the simulators' ledgers whenever their streams stand still, and a
reader watches all the time that no expired tick is served. ``make chaos-ticks`` does that for five
minutes; ``SEED=…`` repeats a run.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.chaos.ticking import QUOTES, SLACK_S, EntryWrites, Scene, Watch, start
from tests.waiting import PATIENCE_S

from penstock.live import ProcessStatus

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 0)
"""How long streams deliver, in all; every trouble comes once in any case."""
FAST = int(os.environ.get("PENSTOCK_TEST_FAST") or 4)
QUIET = 8
LEAST_RATE = 1000 if FAST >= 30 else 0
"""Ticks per second and exchange."""
TTL_S, STALE_S = (6.0, 2.0) if SECONDS < 60 else (30.0, 10.0)
AWAY_S = 2.0 if SECONDS < 60 else 15.0
RETURNED_S = 5.0
"""How soon after Redis has returned everything is right."""
GROWN_MB = 64.0
BEATS_AN_HOUR = 120
SETTINGS = {
    "PENSTOCK_LIVE_TICK_TTL": str(TTL_S),
    "PENSTOCK_LIVE_STALE_AFTER": str(STALE_S),
    "PENSTOCK_COLLECT_MIN_SILENCE": "3" if SECONDS < 60 else "10",
}


async def stand_still(scene: Scene) -> float:
    """The streams stop: the last value of every symbol is the ledger's."""
    truth = await scene.hold()
    took_s = await scene.until_true(truth, RETURNED_S)
    await scene.release()
    return took_s


async def kill(scene: Scene) -> float:
    """Redis is killed and comes back without data, after a while."""
    scene.redis.stop()
    await asyncio.sleep(AWAY_S)
    truth = await scene.hold()
    scene.redis.start()
    took_s = await scene.until_true(truth, RETURNED_S)
    await scene.release()
    return took_s


async def restart(scene: Scene) -> float:
    """Redis loses its data in no time, and nothing is written meanwhile."""
    truth = await scene.hold()
    await scene.until_true(truth, RETURNED_S)
    scene.redis.stop()
    scene.redis.start()
    took_s = await scene.until_true(truth, RETURNED_S)
    await scene.release()
    return took_s


async def pause(scene: Scene) -> float:
    """Redis answers nothing for a while."""
    with scene.redis.paused():
        await asyncio.sleep(AWAY_S)
        truth = await scene.hold()
    took_s = await scene.until_true(truth, RETURNED_S)
    await scene.release()
    return took_s


async def expire(scene: Scene) -> float:
    """Redis is paused while ticks are on their way, until they are too old."""
    with scene.redis.paused():
        await asyncio.sleep(SLACK_S)
        await scene.hold()
        await asyncio.sleep(TTL_S + 2 * SLACK_S)
    await asyncio.sleep(2 * SLACK_S)  # the reader is watching
    # The others send the present tick with every subscription.
    left = [each.key for each in await scene.cache.get_all() if each.exchange == "binance"]
    assert not left, f"expired, and served: {left[:5]}"
    await scene.release()
    return 0.0


async def stall(scene: Scene) -> float:
    """Streams deliver nothing on live connections: their entries say so, and they go on."""
    before = await scene.metrics()
    await scene.hold()
    began = time.monotonic()
    # The others send the present tick whenever they are subscribed to again.
    component = "binance:FAST01/USDT"
    await scene.until_entry(component, lambda entry: entry.message.startswith("Stalled"))
    took_s = time.monotonic() - began
    for name in QUOTES:
        remedy = f'penstock_stream_remedies_total{{exchange="{name}",remedy="asked_anew"}}'
        await scene.until_metric(remedy, above=before.get(remedy, 0.0))
    await scene.release()
    await scene.until_entry(component, lambda entry: entry.status is ProcessStatus.RUNNING)
    return took_s


TROUBLES: dict[str, Callable[[Scene], Awaitable[float]]] = {
    each.__name__: each for each in (stand_still, kill, restart, pause, expire, stall)
}


async def survive(folder: Path) -> dict[str, Any]:
    """Start everything, trouble it, and say what became of it."""
    luck = random.Random(SEED)
    took_s: dict[str, list[float]] = {name: [] for name in TROUBLES}
    async with AsyncExitStack() as stack:
        scene = await start(stack, folder, fast=FAST, quiet=QUIET, settings=SETTINGS)
        writes = EntryWrites(scene.redis.port)
        writes.start()
        stack.callback(writes.ended.set)
        watch = Watch(TTL_S, STALE_S)
        watching = asyncio.create_task(watch.run(scene.cache, scene.daemon.pid))
        stack.callback(watching.cancel)
        began, before = time.monotonic(), await scene.frames_sent()
        await asyncio.sleep(3.0)
        first_mb = max(watch.rss_mb)
        names = luck.sample(list(TROUBLES), len(TROUBLES))
        while names or time.monotonic() - began - scene.unsent_s < SECONDS:
            name = names.pop() if names else luck.choice(list(TROUBLES))
            took_s[name].append(round(await TROUBLES[name](scene), 2))
            await asyncio.sleep(luck.uniform(0.5, 1.0 if SECONDS < 60 else 10.0))
        await stand_still(scene)
        lasted_s, after = time.monotonic() - began, await scene.frames_sent()
        assert not watching.done(), watching
        metrics = await scene.metrics()
        scene.daemon.terminate()
        assert scene.daemon.stdout is not None
        output = await asyncio.wait_for(scene.daemon.stdout.read(), PATIENCE_S)
        assert await scene.daemon.wait() == 0
    return {
        "took_s": took_s,
        "lasted_s": round(lasted_s, 1),
        "streamed_s": round(lasted_s - scene.unsent_s, 1),
        "ticks": json.loads(output.splitlines()[-1])["ticks"],
        "writes": {
            name: sum(count for series, count in metrics.items() if series.startswith(name))
            for name in ("penstock_ticks_written", "penstock_ticks_superseded")
        },
        "ticks_per_s": {
            name: round((after[name] - before[name]) / (lasted_s - scene.unsent_s))
            for name in after
        },
        "polls": watch.polls,
        "unanswered": watch.unanswered,
        "oldest_served_s": round(watch.oldest_s, 2),
        "wrongly_served": watch.wrong[:5],
        "memory_mb": [round(first_mb, 1), round(max(watch.rss_mb), 1)],
        "most_beats": max(writes.beats.values(), default=0),
        "most_entry_writes": max(writes.writes.values(), default=0),
        "components": len(writes.writes),
    }


async def test_the_last_value_is_right_whatever_happens_to_redis(tmp_path: Path) -> None:
    report = await survive(tmp_path)
    print(json.dumps({"seed": SEED, **report}))

    assert not report["wrongly_served"], (SEED, report)
    assert report["polls"] > 0
    first_mb, most_mb = report["memory_mb"]
    assert most_mb - first_mb < GROWN_MB, (SEED, report)
    assert report["components"] > 4 * QUIET, (SEED, report)
    assert report["most_beats"] <= report["lasted_s"] * BEATS_AN_HOUR / 3600 + 1, (SEED, report)
    assert min(report["ticks_per_s"].values()) >= LEAST_RATE, (SEED, report)
