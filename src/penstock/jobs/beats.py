"""Heartbeats: one statement for all jobs of a worker.

A beat renews leases, saves cursors and brings back what people want of the jobs. It is due when a
job has a page to save, and otherwise at a third of the lease. Whatever gathers while one beat is
under way goes with the next, so that many jobs that save at once cost one write.
"""

import asyncio
from collections.abc import Callable

from penstock.clock import Clock, wait_for
from penstock.errors import StorageError
from penstock.jobs.leases import Leases
from penstock.jobs.slots import Slots
from penstock.jobs.turn import NS_PER_MS, Turn

# A store that does not answer is asked again after so many shares of the lease.
_AGAIN_SHARE = 20


class Beats:
    """The pulse of one worker."""

    def __init__(
        self,
        leases: Leases,
        slots: Slots,
        clock: Clock,
        lease_ms: int,
        heard: Callable[[str], None],
    ) -> None:
        self._leases, self._slots = leases, slots
        self._clock, self._lease_ms = clock, lease_ms
        self._heard = heard
        """Told why the store did not answer, or, with an empty text, that it did."""
        self._turns: dict[Turn, int] = {}
        """Every turn, and when it was last renewed."""
        self._unsaved: dict[Turn, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    def add(self, turn: Turn, claimed_ns: int) -> None:
        """Keep a job from now on that was claimed at an instant."""
        turn.began_ns, turn.good_until_ns = claimed_ns, claimed_ns + self._lease_ms * NS_PER_MS
        self._turns[turn] = claimed_ns
        self._wake.set()

    def drop(self, turn: Turn) -> None:
        """Keep it no longer."""
        self._turns.pop(turn, None)
        if (saved := self._unsaved.pop(turn, None)) and not saved.done():
            saved.set_result(None)

    async def save(self, turn: Turn) -> None:
        """Have the next beat carry what a turn has to save; returns when the store has it."""
        if turn not in self._turns:
            return
        saved = self._unsaved.get(turn)
        if saved is None:
            saved = self._unsaved[turn] = asyncio.get_running_loop().create_future()
        self._wake.set()
        await asyncio.shield(saved)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._wake.clear()
            if due := self._due():
                await self._beat(due)
            else:
                await self._sleep()

    def _due(self) -> list[Turn]:
        """Those that have something to save, and those that are to be renewed."""
        before_ns = self._clock.monotonic_ns() - self._lease_ms * NS_PER_MS // 3
        return [t for t, at_ns in self._turns.items() if t in self._unsaved or at_ns <= before_ns]

    async def _sleep(self) -> None:
        """Until something is to be saved, or the next renewal."""
        sleep_s = self._lease_ms / 3000
        if self._turns:
            elapsed_ns = self._clock.monotonic_ns() - min(self._turns.values())
            sleep_s = max(0.0, sleep_s - elapsed_ns / 1_000_000_000)
        await wait_for(self._wake, self._clock, sleep_s)

    async def _beat(self, turns: list[Turn]) -> None:
        sent_ns = self._clock.monotonic_ns()
        # Whoever saves while this is under way has to wait for the next.
        saving = {turn: self._unsaved.pop(turn) for turn in turns if turn in self._unsaved}
        try:
            await self._slots.renew()
            known = await self._leases.beat([turn.job for turn in turns], self._lease_ms)
        except StorageError as error:
            self._heard(str(error))
            self._put_back(saving)
            await self._clock.sleep(self._lease_ms / 1000 / _AGAIN_SHARE)
            return
        self._heard("")
        for turn, job in zip(turns, known, strict=True):
            if turn not in self._turns:
                continue
            if job is None:
                turn.lose("its lease ran out and another took it")
                self.drop(turn)
            else:
                self._turns[turn] = sent_ns
                turn.renewed(job, sent_ns + self._lease_ms * NS_PER_MS)
        for saved in saving.values():
            if not saved.done():
                saved.set_result(None)

    def _put_back(self, saving: dict[Turn, asyncio.Future[None]]) -> None:
        for turn, saved in saving.items():
            if turn in self._turns:
                self._unsaved[turn] = saved
            elif not saved.done():
                saved.set_result(None)
