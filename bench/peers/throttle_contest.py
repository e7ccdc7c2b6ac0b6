"""Runs in the peers' environment: penstock's throttle and five others, measured in turn.

All in one process, so that what else the machine does hits all alike. Prints one JSON object. Ours
is the exact sliding window with events and categories on; pace is off, because no peer has one.
Fixed windows are measured too, at the default pace, below the use from which it delays.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from bisect import bisect_right
from collections import deque
from datetime import timedelta
from functools import partial

from aiolimiter import AsyncLimiter
from ccxt.async_support.base.throttler import Throttler as CcxtThrottler
from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from pyrate_limiter import InMemoryBucket, Limiter, Rate
from throttled.asyncio import MemoryStore, Throttled, per_duration

from penstock.throttle import BaseThrottler, FixedWindow, Pipeline, SlidingWindow


class Penstock:
    """Ours, with a category beside, so that categories are in play."""

    def __init__(self, limit, period_s, windows=1):
        self.told = []
        own = [
            Pipeline(f"{i}", SlidingWindow(limit * (i + 1), period_s * (i + 1)), max_soft_delay=0)
            for i in range(windows)
        ]
        other = [Pipeline("other", SlidingWindow(limit, period_s), max_soft_delay=0)]
        self.throttler = BaseThrottler({"market": own, "orders": other})
        self.throttler.add_listener(self.told.append)
        self.call = self.throttler.acquire, (1, "market")
        self.take = partial(self.throttler.acquire, category="market")


class PenstockFixed:
    """Windows aligned to the clock, at the default pace: what the exchanges' wrappers use."""

    def __init__(self, limit, period_s, windows=1):
        own = [
            Pipeline(f"{i}", FixedWindow(limit * (i + 1), period_s * (i + 1)))
            for i in range(windows)
        ]
        other = [Pipeline("other", FixedWindow(limit, period_s))]
        self.throttler = BaseThrottler({"market": own, "orders": other})
        self.call = self.throttler.acquire, (1, "market")


class ThrottledFixed:
    def __init__(self, limit, period_s):
        quota = per_duration(timedelta(seconds=period_s), limit=limit)
        throttled = Throttled(
            key="key", using="fixed_window", quota=quota, store=MemoryStore(), timeout=60
        )
        self.call = throttled.limit, ("key", 1)


class LimitsFixed:
    def __init__(self, limit, period_s):
        hit = FixedWindowRateLimiter(MemoryStorage()).hit
        self.call = hit, (RateLimitItemPerSecond(limit, round(period_s)), "key")


class Aiolimiter:
    def __init__(self, limit, period_s):
        self.take = AsyncLimiter(limit, period_s).acquire
        self.call = self.take, (1,)


class Pyrate:
    def __init__(self, limit, period_s, windows=1):
        rates = [Rate(limit * (i + 1), round(period_s * 1000) * (i + 1)) for i in range(windows)]
        limiter = Limiter(InMemoryBucket(rates), buffer_ms=0)
        self.call = limiter.try_acquire_async, ("key", 1)
        self.take = partial(limiter.try_acquire_async, "key")


class ThrottledPy:
    def __init__(self, limit, period_s):
        quota = per_duration(timedelta(seconds=period_s), limit=limit)
        throttled = Throttled(
            key="key", using="sliding_window", quota=quota, store=MemoryStore(), timeout=60
        )
        self.call = throttled.limit, ("key", 1)
        self.take = partial(throttled.limit, "key")


class Limits:
    """It has no wait of its own; its documentation suggests this one."""

    def __init__(self, limit, period_s):
        self.strategy = MovingWindowRateLimiter(MemoryStorage())
        self.item = RateLimitItemPerSecond(limit, round(period_s))
        self.call = self.take, (1,)

    async def take(self, cost=1):
        while not await self.strategy.hit(self.item, "key", cost=cost):
            stats = await self.strategy.get_window_stats(self.item, "key")
            await asyncio.sleep(max(stats.reset_time - time.time(), 0.001))


class Ccxt:
    def __init__(self, limit, period_s):
        rolling = {
            "algorithm": "rollingWindow",
            "windowSize": period_s * 1000,
            "rateLimit": period_s * 1000 / limit,
        }
        self.throttler = CcxtThrottler(rolling, asyncio.get_running_loop())
        self.call = self.take, (1,)

    async def take(self, cost=1):
        await self.throttler(cost)


PEERS = {
    "aiolimiter": Aiolimiter,
    "throttled-py": ThrottledPy,
    "pyrate-limiter": Pyrate,
    "limits": Limits,
    "ccxt": Ccxt,
}
ALL = {"penstock": Penstock, **PEERS}


async def cpu_us(contender, calls, prefill=0):
    """CPU time of one acquire that does not wait, one after the other."""
    acquire, arguments = contender.call
    for _ in range(prefill):
        await acquire(*arguments)
    gc.collect()
    before = time.process_time()
    for _ in range(calls):
        await acquire(*arguments)
    return 1e6 * (time.process_time() - before) / calls


async def measure_acquire(rounds, calls, windows, names):
    """Ratios to ours, round by round, and each one's own cost."""
    costs = {name: [] for name in names}
    extra = (windows,) if windows > 1 else ()  # only two can keep several at once
    for turn in range(rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        for name in order:
            # ccxt looks at its whole log for each call.
            many = calls // 10 if name == "ccxt" else calls
            contender = ALL[name](100_000, 60, *extra)
            await cpu_us(contender, 100)
            costs[name].append(await cpu_us(contender, many))
    ours = costs["penstock"]
    return {
        "cpu_us": {name: round(statistics.median(found), 2) for name, found in costs.items()},
        "ratio": {
            name: round(statistics.median(t / o for t, o in zip(found, ours, strict=True)), 2)
            for name, found in costs.items()
            if name != "penstock"
        },
    }


async def measure_fixed(rounds, calls):
    """CPU time of an acquire from fixed windows: ours with one and three, and peers with one."""
    contenders = {
        "penstock_1": partial(PenstockFixed, 100_000, 60),
        "penstock_3": partial(PenstockFixed, 100_000, 60, 3),
        "throttled-py": partial(ThrottledFixed, 100_000, 60),
        "limits": partial(LimitsFixed, 100_000, 60),
    }
    costs = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, made in contenders.items():
            contender = made()
            await cpu_us(contender, 100)
            costs[name].append(await cpu_us(contender, calls))
    return {name: round(statistics.median(found), 2) for name, found in costs.items()}


async def measure_growth_100k(rounds, calls):
    """Grant and refund beside 100,000 entries, against 100: the worse of both ratios."""
    crowded, empty = (Penstock(1_000_000, 3600) for _ in range(2))
    for contender, entries in ((crowded, 100_000), (empty, 100)):
        for _ in range(entries):
            await contender.take(1)
    ratios = {"acquire": [], "refund": []}
    for turn in range(rounds):
        spent = {}
        for contender in (crowded, empty) if turn % 2 else (empty, crowded):
            gc.collect()
            before = time.process_time()
            grants = [await contender.take(1) for _ in range(calls)]
            between = time.process_time()
            for grant in grants:
                grant.refund()
            spent[contender] = between - before, time.process_time() - between
        for place, name in enumerate(ratios):
            ratios[name].append(spent[crowded][place] / spent[empty][place])
    return {name: round(statistics.median(found), 3) for name, found in ratios.items()}


async def measure_growth(rounds, calls):
    """What an acquire costs with 3,000 calls in a window of 6,000, against an empty one."""
    ratios = []
    for turn in range(rounds):
        cost = {}
        for prefill in (0, 3000) if turn % 2 else (3000, 0):
            cost[prefill] = await cpu_us(Penstock(6000, 60), calls, prefill)
        ratios.append(cost[3000] / cost[0])
    return round(statistics.median(ratios), 3)


async def run_callers(contender, callers, seconds, work_s):
    """Let so many callers ask again and again; when each was let go, and the CPU time."""
    granted = [[] for _ in range(callers)]
    waits = []
    end = time.monotonic() + seconds

    async def call(mine):
        while (asked := time.monotonic()) < end:
            await contender.take(1)
            now = time.monotonic()
            if now > end:
                return
            mine.append(now)
            waits.append(now - asked)
            await asyncio.sleep(work_s)  # at least let the others run

    gc.collect()
    before = time.process_time()
    tasks = [asyncio.create_task(call(mine)) for mine in granted]
    await asyncio.sleep(seconds + 0.02)
    spent = time.process_time() - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return granted, max(waits), spent


def most_in(granted, stretch_s):
    """The most grants in any stretch of so long."""
    at = sorted(t for mine in granted for t in mine)
    return max(bisect_right(at, begin + stretch_s) - i for i, begin in enumerate(at))


async def measure_use(name, limit=100, callers=50, seconds=10):
    """100 a second, 50 callers with 50 ms of work each, 10 s."""
    granted, longest, spent = await run_callers(ALL[name](limit, 1), callers, seconds, 0.05)
    counts = [len(mine) for mine in granted]
    return {
        "share": round(sum(counts) / (limit * seconds), 4),
        # Counted when the caller runs again, a little after its grant: hence not a whole second.
        "max_in_window": round(most_in(granted, 0.99) / limit, 3),
        "grant_spread": max(counts) - min(counts),
        "longest_wait_s": round(longest, 3),
        "cpu_s": round(spent, 3),
    }


async def measure_waiters(rounds, names, limit=2000, callers=1000, seconds=3):
    """1,000 callers at 2,000 a second for 3 s: CPU time, fairness."""
    found = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            granted, longest, spent = await run_callers(ALL[name](limit, 1), callers, seconds, 0)
            counts = [len(mine) for mine in granted]
            found[name].append((spent, longest, max(counts) - min(counts), sum(counts)))
    ours = found["penstock"]
    table = {
        name: {
            "cpu_s": round(statistics.median(s for s, *_ in runs), 3),
            "longest_wait_s": round(max(w for _, w, *_ in runs), 2),
            "grant_spread": max(spread for *_, spread, _ in runs),
            "share": round(min(total for *_, total in runs) / (limit * seconds), 3),
        }
        for name, runs in found.items()
    }
    peer = found["pyrate-limiter"]
    ratio = statistics.median(p[0] / o[0] for p, o in zip(peer, ours, strict=True))
    return table, round(ratio, 2)


async def measure_dear_call(name, give_up_s=4.0):
    """How long a call of cost 50 waits beside 50 callers of cost 1, at 100 a second."""
    contender = ALL[name](100, 1)

    async def cheap():
        while True:
            await contender.take(1)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(cheap()) for _ in range(50)]
    await asyncio.sleep(0.2)
    before = time.monotonic()
    try:
        async with asyncio.timeout(give_up_s):
            await contender.take(50)
        waited = time.monotonic() - before
    except TimeoutError:
        waited = give_up_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return round(waited, 3)


async def measure_burn(name):
    """How much of the next window ten cancelled waiters burn, of ten."""
    contender = ALL[name](10, 1)
    for _ in range(10):
        await contender.take(1)
    gone = [asyncio.create_task(contender.take(1)) for _ in range(10)]
    await asyncio.sleep(0.05)
    served = deque()

    async def wait():
        await contender.take(1)
        served.append(1)

    stay = [asyncio.create_task(wait()) for _ in range(10)]
    await asyncio.sleep(0.05)
    for task in gone:
        task.cancel()
    await asyncio.sleep(1.2)
    burnt = 10 - len(served)
    for task in stay:
        task.cancel()
    await asyncio.gather(*gone, *stay, return_exceptions=True)
    return burnt


async def main():
    names = list(ALL)
    # What was imported is not garbage; looking through it again and again would be measured.
    gc.collect()
    gc.freeze()
    say("one window, one call after the other")
    one = await measure_acquire(15, 10_000, 1, names)
    pair = await measure_acquire(25, 20_000, 1, ["penstock", "aiolimiter"])
    say("three windows")
    three = await measure_acquire(15, 5_000, 3, ["penstock", "pyrate-limiter"])
    say("3,000 entries")
    growth = await measure_growth(101, 1_000)
    say("fixed windows at the default pace")
    fixed = await measure_fixed(15, 5_000)
    say("100,000 entries")
    long_log = await measure_growth_100k(31, 300)
    # Before the crowds: what some peers leave running behind them would be measured.
    say("use of the budget")
    use = {name: await measure_use(name) for name in ("penstock", "pyrate-limiter", "aiolimiter")}
    say("1,000 waiters")
    some = ["penstock", "pyrate-limiter"]
    table, waiters = await measure_waiters(5, some)
    rest, _ = await measure_waiters(1, [*some, "aiolimiter", "throttled-py", "limits", "ccxt"])
    say("dear calls and cancelled waiters")
    dear = {name: await measure_dear_call(name) for name in names}
    burn = {name: await measure_burn(name) for name in names}
    result = {
        "ratios": {
            "acquire_1_window_vs_aiolimiter": pair["ratio"]["aiolimiter"],
            "acquire_3_windows_vs_pyrate": three["ratio"]["pyrate-limiter"],
            "waiters_1000_vs_pyrate_cpu": waiters,
            "growth_3000_entries": growth,
        },
        "util": {k: use["penstock"][k] for k in ("share", "max_in_window", "grant_spread")},
        "dear_call_wait_s": dear["penstock"],
        "cancelled_burn": burn["penstock"],
        "fixed_1_us": fixed["penstock_1"],
        "fixed_3_us": fixed["penstock_3"],
        "growth_100k": max(long_log.values()),
        "growth_100k_of": long_log,
        "fixed_cpu_us": fixed,
        "acquire_1_window": one,
        "acquire_3_windows_cpu_us": three["cpu_us"],
        "waiters_1000": {**rest, **table},
        "use": use,
        "dear_call_wait_s_of": dear,
        "cancelled_burn_of": burn,
    }
    print(json.dumps(result), flush=True)


def say(what):
    print(f"   {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
