"""Metrics of a ticker daemon: what became of ticks, and how symbols are, as it measured last."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.telemetry import Fact
from penstock.tickers.facts import TicksMeasured

_WRITES = {
    "written": ("ticks_written", "Ticks sent to the store of live values."),
    "superseded": ("ticks_superseded", "Ticks not written, since a newer one came first."),
    "expired": ("ticks_expired", "Ticks not written, since they waited for too long."),
    "dropped": ("ticks_dropped", "Ticks not written, since too many were waiting."),
    "failures": ("tick_write_failures", "Attempts to write ticks that failed."),
}


class TickerMetrics:
    """A custom collector for a registry."""

    def __init__(self) -> None:
        self._last: TicksMeasured | None = None

    def count(self, fact: Fact) -> None:
        """Keep what was measured."""
        if isinstance(fact, TicksMeasured):
            self._last = fact

    def describe(self) -> Iterable[Metric]:
        """Nothing: a process that collects no ticks has no such metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        last = self._last
        if last is not None:
            yield from _exchanges(last)
            yield from _writes(last)


def _exchanges(last: TicksMeasured) -> Iterator[Metric]:
    received = CounterMetricFamily(
        "penstock_ticks_received", "Ticks that streams delivered.", labels=["exchange"]
    )
    symbols = GaugeMetricFamily(
        "penstock_ticker_symbols", "Symbols by status.", labels=["exchange", "status"]
    )
    oldest = GaugeMetricFamily(
        "penstock_ticks_oldest_age_seconds", "Age of the last tick of the symbol that is oldest.",
        labels=["exchange"],
    )  # fmt: skip
    for exchange, each in last.exchanges.items():
        received.add_metric([exchange], each.received)
        for status, count in each.symbols.items():
            symbols.add_metric([exchange, status], count)
        if each.oldest_s is not None:
            oldest.add_metric([exchange], each.oldest_s)
    yield from (received, symbols, oldest)


def _writes(last: TicksMeasured) -> Iterator[Metric]:
    for field, (name, words) in _WRITES.items():
        counter = CounterMetricFamily(f"penstock_{name}", words, labels=["store"])
        counter.add_metric([last.store], getattr(last, field))
        yield counter
    waiting = GaugeMetricFamily(
        "penstock_ticks_waiting", "Ticks that wait to be written.", labels=["store"]
    )
    waiting.add_metric([last.store], last.waiting)
    yield waiting
