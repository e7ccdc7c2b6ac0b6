"""Builds the parts that the server's handlers share, once per exchange."""

from dataclasses import dataclass

from penstock.clock import Clock
from penstock.config import Simulator
from penstock.simulator.engine.broadcaster import Broadcaster
from penstock.simulator.engine.exchange import SimulatedExchange
from penstock.simulator.engine.facts import RequestRefused
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.engine.injection import FaultLog, Injector
from penstock.simulator.engine.limits import MINUTE_MS, RequestLimiter, Verdict
from penstock.simulator.engine.routing import Router
from penstock.simulator.engine.sender import Sender
from penstock.simulator.engine.windows import LoopWatch, Windows
from penstock.telemetry import Listener


@dataclass
class Engine:
    """The parts of one running simulated exchange."""

    exchange: SimulatedExchange
    router: Router
    settings: Simulator
    clock: Clock
    emit: Listener
    limiter: RequestLimiter
    injector: Injector
    windows: Windows
    watch: LoopWatch
    broadcaster: Sender
    requests: int = 0
    refusals: int = 0
    in_flight: int = 0
    failures: int = 0
    """Requests, messages and background tasks that failed by a defect of the simulator."""

    def emit_refused(self, path: str, verdict: Verdict) -> None:
        """Count a refusal and report it to the listener."""
        self.refusals += 1
        name = verdict.broken.name if verdict.broken else next(iter(verdict.used), "")
        limits = {rule.name: rule.limit for rule in self.limiter.rules}
        self.emit(
            RequestRefused(
                exchange=self.exchange.name,
                path=path,
                status=verdict.status,
                used=verdict.used.get(name, 0),
                limit=limits.get(name, 0),
            )
        )


def build_engine(
    exchange: SimulatedExchange,
    settings: Simulator,
    clock: Clock,
    listener: Listener,
    sender: Sender | None = None,
) -> Engine:
    """Build the parts of an exchange; ``sender`` replaces the frames of its market.

    Raises:
        ConfigError: the fault plan cannot be parsed.
    """
    plan = read_plan(settings.faults, settings.fault_seed, origin="simulator.faults")
    # Windows are those of the first aligned limit on requests, by which clients are judged.
    period_ms = next(
        (
            rule.period_ms
            for rule in exchange.rules
            if rule.kind == "aligned" and rule.unit in ("weight", "request")
        ),
        MINUTE_MS,
    )
    windows = Windows(period_ms)
    return Engine(
        exchange=exchange,
        router=Router(exchange.routes),
        settings=settings,
        clock=clock,
        emit=listener,
        limiter=RequestLimiter(exchange.rules, exchange.bans),
        injector=Injector(plan, FaultLog(exchange.name, listener)),
        windows=windows,
        watch=LoopWatch(clock, windows),
        broadcaster=sender or Broadcaster(exchange, clock),
    )
