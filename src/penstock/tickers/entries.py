"""The entries of one exchange's symbols in the process cache, written in the background.

Reports only change memory, so that a tick never waits for the store. An entry is written when its
status changes, and otherwise every 30 seconds. Of several changes the last is written. All entries
that are due are written together.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from penstock.clock import Clock, wait_for
from penstock.errors import StorageError
from penstock.live import (
    BEAT_S,
    Outcome,
    ProcessCache,
    ProcessInfo,
    ProcessReport,
    ProcessStatus,
    ProcessType,
    Registration,
)
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener
from penstock.tickers.credentials import Access
from penstock.tickers.facts import EntriesNotWritten
from penstock.tickers.model import TickerSymbol

_BEAT_NS = round(BEAT_S * 1_000_000_000)
_LOOK_S = 1.0
_CLOSE_S = 5.0


class _Entry:
    __slots__ = (
        "final", "lost", "message", "process_id", "status", "symbol", "ticker", "written",
        "written_ns",
    )  # fmt: skip

    def __init__(self, symbol: TickerSymbol) -> None:
        self.symbol = symbol
        self.status, self.message = ProcessStatus.STARTING, "Starting collection"
        self.final = False
        """Whether it is not collected: then it is written once, and not repeated."""
        self.lost = False
        """Whether it failed because its connection was lost."""
        self.ticker: Ticker | None = None
        """The last one."""
        self.process_id: str | None = None
        self.written: ProcessStatus | None = None
        self.written_ns = 0

    @property
    def words(self) -> str:
        if self.status is ProcessStatus.RUNNING and self.ticker is not None:
            return f"Received ticker at {self.ticker.received_at_ns // 1_000_000}"
        return self.message

    def due(self, now_ns: int) -> bool:
        if self.process_id is None or self.written is not self.status:
            return True
        return not self.final and now_ns - self.written_ns >= _BEAT_NS


class SymbolEntries:
    """The entries of one exchange. For one event loop."""

    def __init__(
        self, exchange: str, processes: ProcessCache, clock: Clock, emit: Listener, access: Access
    ) -> None:
        self._exchange, self._processes, self._clock = exchange, processes, clock
        self._emit, self._access = emit, access
        self._entries: dict[Symbol, _Entry] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._warned = False

    def __contains__(self, symbol: Symbol) -> bool:
        return symbol in self._entries

    def start(self, symbol: Symbol) -> None:
        """Show a symbol as starting, unless it has an entry."""
        known = self._entries.get(symbol)
        if known is None or known.final:
            entry = _Entry(TickerSymbol(self._exchange, symbol))
            if known is not None:
                entry.process_id = known.process_id
            self._entries[symbol] = entry
            self._changed.set()

    def heard(self, ticker: Ticker) -> None:
        """Note a tick. Called for every one."""
        entry = self._entries.get(ticker.symbol)
        if entry is not None:
            entry.ticker = ticker
            if entry.status is not ProcessStatus.RUNNING:
                entry.status = ProcessStatus.RUNNING
                self._changed.set()

    def failed(self, symbol: Symbol, reason: str, *, final: bool = False) -> None:
        """Show a symbol as failed, until its next tick; for good if it is ``final``."""
        entry = self._entries.get(symbol)
        if entry is not None:
            entry.status, entry.message = ProcessStatus.ERROR, reason
            entry.final, entry.lost = final, False
            self._changed.set()

    def lost(self, symbol: Symbol, reason: str) -> None:
        """Show that a symbol's connection was lost, until its next tick or connection."""
        self.failed(symbol, reason)
        entry = self._entries.get(symbol)
        if entry is not None:
            entry.lost = True

    def reconnected(self, symbol: Symbol) -> None:
        """Show a symbol whose connection was lost as starting: its market may be quiet."""
        entry = self._entries.get(symbol)
        if entry is not None and entry.lost and entry.status is ProcessStatus.ERROR:
            entry.status, entry.message = ProcessStatus.STARTING, "Connected again"
            self._changed.set()

    def unwanted(self, wanted: Iterable[Symbol]) -> list[Symbol]:
        """The symbols with an entry that are not among these, except those that failed for good."""
        kept = set(wanted)
        return [
            symbol
            for symbol, entry in self._entries.items()
            if symbol not in kept and not entry.final
        ]

    def reclaim(self, found: Mapping[str, ProcessInfo]) -> None:
        """Register symbols again whose entry another daemon took over and then ended.

        ``found`` are the entries in the store, by component.
        """
        for entry in self._entries.values():
            info = found.get(entry.symbol.key)
            is_ours = info is not None and (info.active or info.process_id == entry.process_id)
            if entry.process_id is not None and not is_ours:
                entry.process_id = entry.written = None
                self._changed.set()

    def statuses(self) -> Counter[str]:
        """How many symbols have each status."""
        return Counter(str(entry.status) for entry in self._entries.values())

    def latest(self) -> list[Ticker]:
        """The last tick of each symbol that has one."""
        return [entry.ticker for entry in self._entries.values() if entry.ticker is not None]

    def renew(self) -> None:
        """Register all symbols again, since the store has lost their entries."""
        for entry in self._entries.values():
            entry.process_id = entry.written = None
        self._changed.set()

    async def run(self) -> None:
        """Write what is due, for ever. What the store does not take is retried."""
        while True:
            await wait_for(self._changed, self._clock, _LOOK_S)
            self._changed.clear()
            try:
                await self._write_due()
                self._warned = False
            except Exception as error:
                # Whatever it is: ticks are more important than their entries.
                if not self._warned:
                    self._emit(EntriesNotWritten(exchange=self._exchange, reason=str(error)))
                self._warned = True
                await self._clock.sleep(_LOOK_S)

    async def stop(self, symbols: Iterable[Symbol]) -> None:
        """Show symbols as stopped, from now on without their reports.

        If the store does not answer, their entries expire.
        """
        gone = [entry for symbol in symbols if (entry := self._entries.pop(symbol, None))]
        # After a registration that is in progress: it would outlive the entry.
        async with self._turn:
            ids = [entry.process_id for entry in gone if entry.process_id is not None]
            with suppress(StorageError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._processes.stop_processes(ids)

    async def close(self) -> None:
        """Show all symbols as stopped."""
        await self.stop(list(self._entries))

    async def _write_due(self) -> None:
        now_ns = self._clock.monotonic_ns()
        due = [entry for entry in self._entries.values() if entry.due(now_ns)]
        async with self._turn:
            # Some may have been stopped while this waited.
            await self._write(
                [each for each in due if self._entries.get(each.symbol.symbol) is each]
            )

    async def _write(self, entries: Sequence[_Entry]) -> None:
        """Write entries; register those that are new, were removed, or were taken over.

        Those were collected by another daemon meanwhile.
        """
        written = [(entry, entry.status, entry.words) for entry in entries]
        reports = {
            entry.process_id: ProcessReport(
                process_id=entry.process_id, status=status, message=words
            )
            for entry, status, words in written
            if entry.process_id is not None
        }
        outcomes = await self._processes.update_processes(list(reports.values()))
        lost = {
            process_id
            for process_id, outcome in zip(reports, outcomes, strict=True)
            if outcome in (Outcome.TAKEN_OVER, Outcome.UNKNOWN)
        }
        registrations = {
            entry.symbol: Registration(
                process_type=ProcessType.TICK,
                component=entry.symbol.key,
                params={
                    "exchange": self._exchange,
                    "symbol": entry.symbol.symbol.unified,
                    "access": self._access,
                },
                message=words,
                status=status,
            )
            for entry, status, words in written
            if entry.process_id is None or entry.process_id in lost
        }
        ids = await self._processes.register_processes(list(registrations.values()))
        registered = dict(zip(registrations, ids, strict=True))
        for entry, status, _ in written:
            entry.process_id = registered.get(entry.symbol, entry.process_id)
            entry.written, entry.written_ns = status, self._clock.monotonic_ns()
