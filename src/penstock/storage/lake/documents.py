"""What is sealed of a slot, as a document in the state store.

The keeper writes it after it has read a seal back. The owner of the slot deletes what the document
names: only the owner may write to its slot.
"""

from typing import Any

import msgspec
from msgspec import Struct

from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import SEALS

_MOST = 1000
"""Documents that are read at once."""


class Deletion(Struct, frozen=True, array_like=True):
    """What the owner of a slot is to delete of a stream: all records with lower keys."""

    key: str
    """In hexadecimal digits."""
    seen: int
    """The last number that was taken into account; see ``LogWriter.delete_below``."""


class SealState(Struct, frozen=True, kw_only=True):
    """What is sealed of one channel of a slot."""

    log_id: str
    """In hexadecimal digits."""
    slot: str
    channel: str
    """The row of the table of channels, and the table in the lake."""
    numbers: dict[str, int] = {}
    """By stream, the last number that is sealed and was read back equal."""
    sealed_ms: int = 0
    """All records that were received before this time are among them."""
    deletions: dict[str, Deletion] = {}
    """By stream."""

    @property
    def id(self) -> str:
        return f"{self.log_id}/{self.slot}/{self.channel}"

    def verified(self, stream: Stream) -> int:
        return self.numbers.get(str(stream), 0)


async def read_seals(store: StateStore, log_id: int, slot: str) -> list[SealState]:
    """What is sealed of a slot, by channel.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    query = [[Condition("log_id", "=", f"{log_id:x}"), Condition("slot", "=", slot)]]
    return await _read(store, query)


async def read_all_seals(store: StateStore) -> list[SealState]:
    """What is sealed of every slot of every log.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    return await _read(store, [])


async def _read(store: StateStore, query: Query) -> list[SealState]:
    found: list[Document] = []
    while page := await store.find(SEALS, query, limit=_MOST, after=found[-1] if found else None):
        found += page
    return [msgspec.convert(document, SealState) for document in found]


async def merge_seals(store: StateStore, state: SealState) -> None:
    """Add numbers and deletions to what is stored. A number never falls.

    Raises:
        StoreUnreachable: the store does not answer.
    """

    def merged(document: Document) -> dict[str, Any]:
        before = msgspec.convert(document, SealState)
        numbers = {
            name: max(before.numbers.get(name, 0), state.numbers.get(name, 0))
            for name in before.numbers.keys() | state.numbers.keys()
        }
        deletions = {**before.deletions, **state.deletions}
        return {
            **document,
            "numbers": numbers,
            "sealed_ms": max(before.sealed_ms, state.sealed_ms),
            "deletions": msgspec.to_builtins(deletions),
        }

    inserted = await store.insert_if_absent(SEALS, {**msgspec.to_builtins(state), "id": state.id})
    if not inserted.created:
        await store.update(SEALS, state.id, merged)
