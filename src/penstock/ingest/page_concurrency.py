"""Chooses how many pages of one market a job requests concurrently."""

from penstock.exchanges.base import ExchangeClient, Request
from penstock.ingest.concurrency import concurrency_for
from penstock.ingest.context import HandlerContext
from penstock.ingest.request_rate import request_rate


def page_concurrency(
    context: HandlerContext, gateway: ExchangeClient, request: Request[object]
) -> int:
    """The chosen number; ``auto`` is what the limits allow of such requests, shared by all jobs."""
    if context.chunk_concurrency != "auto":
        return context.chunk_concurrency
    rate = request_rate(gateway.gate.used(), request)
    return concurrency_for(rate, gateway.latency_ms, context.fetches.of(gateway.exchange.name))
