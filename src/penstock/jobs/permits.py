"""Job permits limit how many jobs of one exchange all workers together run at once.

An exchange has one permit for each job that may run, a document in the store. A worker takes a
permit before it claims a job, keeps it while it has jobs to run, and renews it with its heartbeats.
The permit of a worker that was killed is free again when its lease has expired.
"""

from collections import Counter, defaultdict

from penstock.clock import Clock
from penstock.storage.state import Claim, Document, StateStore, Write
from penstock.storage.state.documents import Add, Condition, StoreNow
from penstock.storage.state.schema import JOB_SLOTS

# Permits are renewed at least this often per lease, and before their jobs: no job still runs when
# another worker holds its permit.
_RENEWALS = 6
_NS_PER_MS = 1_000_000


class JobPermits:
    """The permits that one worker holds."""

    def __init__(
        self, store: StateStore, worker: str, per_exchange: int, lease_ms: int, clock: Clock
    ) -> None:
        self._store, self._worker, self._clock = store, worker, clock
        self._per_exchange, self._lease_ms = per_exchange, lease_ms
        self._held: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """By exchange: the ids of held permits, and the fences of their claims."""
        self._used: Counter[str] = Counter()
        self._known: set[str] = set()
        self._renewed_ns = 0
        self.full: set[str] = set()
        """Exchanges that had no free permit when one was last requested."""

    async def take(self, exchange_id: str, want: int) -> int:
        """Return how many more jobs of an exchange may be claimed now, at most ``want``."""
        await self.renew()
        free = self._free(exchange_id)
        if free < want:
            await self._claim(exchange_id, want - free)
            free = self._free(exchange_id)
        if not free:
            self.full.add(exchange_id)
        return min(want, free)

    def use(self, exchange_id: str, jobs: int) -> None:
        """Count claimed jobs, each of which uses a permit."""
        self._used[exchange_id] += jobs

    def done(self, exchange_id: str) -> None:
        """Count a job that no longer runs."""
        self._used[exchange_id] -= 1

    async def renew(self) -> None:
        """Renew the held permits if that is due; drop those that were lost."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._renewed_ns < self._lease_ms * _NS_PER_MS // _RENEWALS:
            return
        held = [(name, id_) for name, permits in self._held.items() for id_ in permits]
        writes = [self._write(name, id_, {"until": StoreNow(self._lease_ms)}) for name, id_ in held]
        written = await self._store.write(JOB_SLOTS, writes)
        for (exchange_id, id_), permit in zip(held, written, strict=True):
            if permit is None:
                del self._held[exchange_id][id_]
        self._renewed_ns = now_ns

    async def release(self) -> None:
        """Release the permits that no job uses."""
        unused = [
            (name, id_)
            for name, permits in self._held.items()
            for id_ in list(permits)[self._used[name] :]
        ]
        free = {"until": 0, "holder": None}
        await self._store.write(JOB_SLOTS, [self._write(*one, free) for one in unused])
        for exchange_id, id_ in unused:
            del self._held[exchange_id][id_]

    def _free(self, exchange_id: str) -> int:
        return max(0, len(self._held[exchange_id]) - self._used[exchange_id])

    def _write(self, exchange_id: str, id_: str, patch: Document) -> Write:
        return Write(id_, {"fence": self._held[exchange_id][id_]}, patch)

    async def _claim(self, exchange_id: str, want: int) -> None:
        if exchange_id not in self._known:
            for number in range(self._per_exchange):
                permit = {"id": f"{exchange_id}/{number}", "exchange_id": exchange_id}
                fresh = {**permit, "number": number, "until": 0, "fence": 0, "holder": None}
                await self._store.insert_if_absent(JOB_SLOTS, fresh)
            self._known.add(exchange_id)
        free = [
            Condition("exchange_id", "=", exchange_id),
            Condition("number", "<=", self._per_exchange - 1),
            Condition("until", "<=", StoreNow()),
        ]
        taken = {"until": StoreNow(self._lease_ms), "holder": self._worker, "fence": Add(1)}
        claim = Claim([free], ("number",), taken, want)
        for got in await self._store.claim(JOB_SLOTS, claim):
            self._held[exchange_id][got["id"]] = got["fence"]
