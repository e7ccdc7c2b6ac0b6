"""A process that records: it owns a slot of the log and publishes what it records there."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import cache
from types import TracebackType

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.coverage.continuity import Continuity
from penstock.coverage.gap_reports import GapReports, ReportingSlot
from penstock.coverage.projection import Projection
from penstock.coverage.writing import CoverageWriter
from penstock.errors import MissingExtra, SlotInUse, UnknownExchange
from penstock.exchanges import registry
from penstock.market.channels import DISCONNECTS
from penstock.market.events import Disconnect
from penstock.market.market_shard import MarketShard
from penstock.market.symbol import Symbol
from penstock.publish import PublishedCounts, PublishedSlot
from penstock.publish.by_url import prepare_publishers
from penstock.publish.endpoints import log_id
from penstock.recorder import Recorder
from penstock.runtime.checkpoints import Checkpointer
from penstock.runtime.facts import LogSetBack
from penstock.runtime.process import Process
from penstock.runtime.publishers import Publishers
from penstock.runtime.slots import free_slot
from penstock.runtime.status import Report, slot_status_id
from penstock.runtime.stores import configured_log
from penstock.runtime.stream_taps import WITHIN_S, StreamTap, StreamTaps
from penstock.runtime.trimming import Trimmer
from penstock.storage.log import LogWriter, Stored
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

_UNKNOWN = 500_000
"""Numbers above the last known one that may have been assigned or sealed before a disk was lost."""
_BRIEFLY_NS = 10_000_000_000
"""How long another process may use a slot that it releases soon."""
_LOOK_S = 0.1


class RecordingProcess(Process):
    """A process that owns a slot of the log, and publishes what it records there."""

    def __init__(
        self, kind: str, settings: Settings, clock: Clock, listener: Listener = quiet
    ) -> None:
        """Check the URLs of the log and of the publishers. Nothing is opened or changed.

        Raises:
            ConfigError: one of them is invalid.
        """
        super().__init__(kind, settings, clock, listener)
        self.log = configured_log(settings)
        self._prepared = prepare_publishers(settings)
        self._writer: LogWriter | None = None
        self._log_id: int | None = None
        self._publishers: Publishers | None = None
        self._recorded = 0
        self._coverage: CoverageWriter | None = None
        self.take_recorded: Callable[[], None] = lambda: None
        """Passes on records that the taps have not received yet."""

    @property
    def log_id(self) -> int:
        """Identifies the log, in messages and in the cursors of jobs."""
        if self._log_id is None:
            folder = self.log.folder
            self._log_id = secrets.randbits(63) if folder is None else log_id(folder)
        return self._log_id

    @property
    def owns_slot(self) -> bool:
        """Whether it owns its slot, and so may write to it and to its status."""
        return self._writer is not None

    def own_slot(self, slot: str) -> LogWriter:
        """Open a slot of the log, unless it is open already.

        Raises:
            SlotInUse: another process owns it.
            StorageError: it cannot be opened.
        """
        return self._writer or self._own(self.log.writer(slot))

    async def take_slot(self, slot: str) -> LogWriter:
        """The same; a backup or a keeper that uses the slot for a moment is waited for.

        Raises:
            SlotInUse, StorageError: as above.
        """
        until_ns = self.clock.monotonic_ns() + _BRIEFLY_NS
        while True:
            try:
                return self.own_slot(slot)
            except SlotInUse as error:
                if not error.briefly or self.clock.monotonic_ns() > until_ns:
                    raise
            await self.clock.sleep(_LOOK_S)

    def own_free_slot(self, name: str) -> LogWriter:
        """Open the first slot with this name and a number that no process owns.

        Raises:
            StorageError: it cannot be opened.
        """
        return self._own(free_slot(self.log, name))

    def _own(self, writer: LogWriter) -> LogWriter:
        self._writer = self.stack.enter_context(closing(writer))
        self.name = writer.slot
        return writer

    def open_recorder(
        self, taps: Sequence[StreamTap] = (), continuity: Continuity | None = None
    ) -> tuple[Recorder, Publishers]:
        """Open the publishers of the slot that it owns, and the recorder.

        From then on the coverage of the slot is written to the state store. With ``continuity``
        (of a collector), what is missing is reported there too.

        Raises:
            ConfigError: a publisher cannot be opened.
        """
        writer = self._writer
        assert writer is not None
        source = PublishedSlot(
            slot=writer.slot,
            log_id=self.log_id,
            numbers={str(stream): number for stream, number in writer.last_numbers().items()},
            clock=self.clock,
            listener=self.listener,
        )
        publishers = Publishers(self._prepared, source, self.settings.publish.queue)
        self._publishers = self.stack.enter_context(closing(publishers))
        within_s = WITHIN_S if continuity is not None else 0.0
        all_taps = (*self._cover(writer, continuity), *taps)
        stream_taps = StreamTaps(all_taps, within_s, self.coverage.projection.has_ids)
        recorder = Recorder(
            writer,
            publishers,
            (stream_taps, self._count_recorded),
            durability=self.settings.collect.durability,
            listener=self.listener,
        )
        stream_taps.failed = recorder.tap_failed
        self.take_recorded = self.coverage.take_recorded = stream_taps.pass_on
        self.stack.enter_context(closing(recorder))
        trimmer = Trimmer(writer, self.log_id, self.clock, self.listener)
        self.start(trimmer.run(lambda: self.store))
        if self.log.folder is not None:
            copies = Checkpointer(writer, self.log_id, self.log.folder, self.clock, self.listener)
            self.start(copies.run(lambda: self.store))
        self.coverage.sync, self.coverage.store = recorder.sync, self.store
        self.start(self.coverage.run())
        return recorder, publishers

    async def continue_numbers(self) -> None:
        """Continue above all numbers that the state store knows of this slot.

        They are higher than those of the log if that is an older copy, restored beside a newer
        state. A repeated number would be taken for one that is sealed already, and its record be
        deleted. Call this before anything is recorded, once the state store is open.

        Raises:
            StorageError: the log or the store failed.
        """
        assert self._writer is not None
        missing = await self.coverage.missing_numbers()
        if not missing:
            return
        above = {stream: number + _UNKNOWN for stream, number in missing.items()}
        # The markers first, so that they exist wherever numbers are skipped; their own before.
        self._writer.skip_numbers({s: n for s, n in above.items() if s.channel == DISCONNECTS.name})
        now_ns = self.clock.now_ns()
        self._writer.append([_set_back(stream, now_ns) for stream in missing], "synced")
        self._writer.skip_numbers(above)
        self.listener(LogSetBack(slot=self.name, streams=len(missing)))

    async def take_up_others(self, exchange: str, shard: MarketShard) -> None:
        """Take up what other slots hold of the markets of a shard, and what is missing of them.

        Call this before anything is recorded, once the state store is open.

        Raises:
            StorageError: the store failed.
        """
        await self.coverage.take_up_others(exchange, lambda each: shard.owns(each.symbol))
        self.gap_reports.resume()

    @property
    def coverage(self) -> CoverageWriter:
        """Writes what the slot holds to the state store; there is none before the recorder."""
        assert self._coverage is not None
        return self._coverage

    @property
    def gap_reports(self) -> GapReports:
        """Reports what a collector did not receive."""
        assert self.coverage.reports is not None
        return self.coverage.reports

    def _cover(self, writer: LogWriter, continuity: Continuity | None) -> Sequence[StreamTap]:
        """Prepare the coverage of the slot; return the taps that update it."""
        slot, is_streamed = writer.slot, continuity is not None
        projection = Projection(self.log_id, slot, _consecutive, is_streamed=is_streamed)
        reports: GapReports | None = None
        if continuity is not None:
            reporting = ReportingSlot(slot, self.log_id)
            reports = GapReports(continuity, reporting, self.clock, self.listener)
            projection.found = reports.find
        self._coverage = CoverageWriter(
            projection, reports, self.log, writer.last_numbers, self.clock, self.listener
        )
        return [projection.take] if continuity is None else [continuity.take, projection.take]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._end_tasks()
            if self._coverage is not None:
                await self._coverage.finish()
        finally:
            await super().__aexit__(kind, error, trace)

    def state_opened(self, store: StateStore) -> None:
        """See ``Process``."""
        super().state_opened(store)
        if self._coverage is not None:
            self._coverage.store = store

    def _count_recorded(self, recorded: Sequence[Stored]) -> None:
        self._recorded += len(recorded)

    def status_id(self) -> str:
        """See ``Process``."""
        return slot_status_id(self.log_id, self.name)

    def published(self) -> Mapping[str, PublishedCounts]:
        """See ``Process``."""
        return self._publishers.counts() if self._publishers is not None else {}

    def current_report(self) -> Report:
        """See ``Process``."""
        return replace(super().current_report(), activity=self._recorded)


def _set_back(stream: Stream, at_ns: int) -> Disconnect:
    return Disconnect(
        exchange=stream.exchange,
        symbol=Symbol.parse(stream.symbol),
        received_at_ns=at_ns,
        channels=(stream.channel,),
        reason="an older copy of the log was restored",
        cause="damaged",
    )


@cache
def _consecutive(exchange: str) -> Collection[str]:
    try:
        return registry.load(exchange).consecutive
    except (UnknownExchange, MissingExtra):
        return ()
