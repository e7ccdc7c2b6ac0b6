"""Computes how many requests to have in flight. Pure.

By Little's law, requests in flight = rate × latency. With fewer the limit is not used; more only
wait for the limit.
"""

from math import ceil

from penstock.jobs.kinds import RequestRate

MOST = 200
"""More are never in flight for one market, however long responses take."""
FEW_TRADES = 1000
"""Up to so many trades are fetched one page at a time."""
_UNKNOWN_RATE = 5
# Latency varies: if it were exact, the limit would wait for responses half of the time.
_HEADROOM = 1.1


def concurrency_for(rate: RequestRate, latency_ms: float | None, jobs: int = 1) -> int:
    """The requests that each of some jobs should have in flight, at this limit and latency.

    It is one until the latency is known.
    """
    if latency_ms is None:
        return 1
    if not rate.window_ms:
        return _UNKNOWN_RATE
    in_flight = rate.requests / rate.window_ms * latency_ms / jobs
    return min(MOST, ceil(in_flight * _HEADROOM) + 1)
