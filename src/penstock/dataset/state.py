"""What a reader needs of the state store: the ledger of coverage, and the exchanges' own names."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from penstock.clock import Clock
from penstock.connectors.markets import stored_listing
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow, SlotCoverage, as_coverage
from penstock.market.symbol import Symbol
from penstock.storage.lake.documents import SealState, read_all_seals
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.documents import Document
from penstock.storage.state.schema import COVERAGE

T = TypeVar("T")
_PAGE = 500
_RECENT_NS = 5_000_000_000


class Ledger(NamedTuple):
    """What is stored about the records of all logs."""

    held: list[SlotCoverage]
    gaps: list[GapRow]
    seals: dict[tuple[int, str, str], SealState]
    """What is in the lake, by log, slot and table."""


class StateReader:
    """Reads the state store at a URL, which is opened for each call and never changed."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url, self._clock = url, clock
        self._streams: tuple[int, set[Stream]] | None = None
        """When they were read, and the streams of all logs."""

    def ledger(self) -> Ledger:
        """What all slots hold, what is missing, and what is sealed.

        Raises:
            StoreUnreachable, NewerStore: the store cannot be opened.
        """

        async def read(store: StateStore) -> Ledger:
            documents = await _all_coverage(store)
            seals = await read_all_seals(store)
            return Ledger(
                list(map(as_coverage, documents)),
                await GapRows(store).find(),
                {(int(each.log_id, 16), each.slot, each.channel): each for each in seals},
            )

        return self._with_store(read)

    def streams(self) -> set[Stream]:
        """The streams that any log holds, as of a few seconds ago.

        Raises:
            StoreUnreachable, NewerStore: the store cannot be opened.
        """

        async def read(store: StateStore) -> set[Stream]:
            return {as_coverage(each).stream for each in await _all_coverage(store)}

        now_ns = self._clock.monotonic_ns()
        if self._streams is None or now_ns - self._streams[0] > _RECENT_NS:
            self._streams = now_ns, self._with_store(read)
        return self._streams[1]

    def natives(self, exchanges: Iterable[str]) -> dict[str, dict[str, Symbol]]:
        """For each exchange, its markets by its own names, as far as they were listed.

        Raises:
            StoreUnreachable, NewerStore: the store cannot be opened.
        """

        async def read(store: StateStore) -> dict[str, dict[str, Symbol]]:
            found = {name: await stored_listing(store, name) for name in exchanges}
            return {
                name: {each.native: each.symbol for each in listing.markets} if listing else {}
                for name, listing in found.items()
            }

        return self._with_store(read)

    def _with_store(self, read: Callable[[StateStore], Awaitable[T]]) -> T:
        async def opened() -> T:
            store = await open_store(self._url, clock=self._clock, read_only=True)
            try:
                return await read(store)
            finally:
                await store.close()

        # In a thread of its own: a notebook has a running event loop in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, opened()).result()


async def _all_coverage(store: StateStore) -> list[Document]:
    found: list[Document] = []
    page: list[Document] = []
    while not found or len(page) == _PAGE:
        page = await store.find(COVERAGE, limit=_PAGE, after=page[-1] if page else None)
        found += page
        if not page:
            break
    return found
