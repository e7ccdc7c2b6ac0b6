"""State in memory, for one process and for tests: the contract with nothing added."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from penstock.clock import Clock
from penstock.errors import ConfigError, NewerStore
from penstock.storage.state.budget import Budget, LeaseReply, LeaseRequest, lease, unblocked
from penstock.storage.state.documents import (
    Claim,
    Counts,
    Document,
    Query,
    Write,
    expected,
    field_of,
    matches,
    patched,
    position,
    rivals,
)
from penstock.storage.state.schema import Schema, Table


def open_url(url: str, clock: Clock, timeout_s: float) -> "MemoryBackend":  # noqa: ARG001
    """An empty store; ``memory:`` is the whole URL."""
    if url != "memory:":
        raise ConfigError(url, problem="a store in memory has no path.", origin="state URL")
    return MemoryBackend(clock)


class MemoryBackend:
    """Documents that exist as long as this object. No await inside a step, hence no lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Stored encoded, so that callers hold no references to what is stored.
        self._tables: dict[str, dict[str, bytes]] = {}
        self._budgets: dict[str, Budget] = {}
        self._version = 0

    @property
    def where(self) -> str:
        return "memory:"

    async def prepare(self, schema: Schema, known: int | None = None) -> int:
        found = self._version
        if found > (known or len(schema)):
            raise NewerStore(self.where, found, known or len(schema))
        for table in (table for step in schema[found:] for table in step):
            self._tables.setdefault(table.name, {})
        self._version = max(found, len(schema))
        return found

    async def version(self) -> int:
        return self._version

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    def _all(self, table: Table) -> Iterator[Document]:
        for text in self._tables[table.name].values():
            document: Document = msgspec.json.decode(text)
            yield document

    def _put(self, table: Table, document: Document, version: int) -> Document:
        written = {**document, "version": version}
        self._tables[table.name][document["id"]] = msgspec.json.encode(written)
        return written

    def _find(self, table: Table, query: Query, order: Sequence[str], limit: int) -> list[Document]:
        for field in (*order, *(where.field for alternative in query for where in alternative)):
            table.type_of(field)
        now_ms = self._clock.now_ms()
        found = [document for document in self._all(table) if matches(document, query, now_ms)]
        return sorted(found, key=lambda document: position(document, order))[:limit]

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        return self._find(table, query, order, limit)

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        return [found for query in queries for found in self._find(table, query, order, 1)]

    async def counts(self, table: Table) -> Counts:
        return Counter(
            tuple(field_of(document, field) for field in table.counted)
            for document in self._all(table)
        )

    async def insert(self, table: Table, document: Document) -> bool:
        if self._find(table, rivals(table, document), (), 1):
            return False
        self._put(table, document, 1)
        return True

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        there = self._find(table, rivals(table, document), (), 2)
        mine = [found for found in there if found["id"] == document["id"]]
        if not mine or mine[0]["version"] != document["version"]:
            return "changed"
        if len(there) > 1:
            return "rival"
        self._put(table, document, document["version"] + 1)
        return "written"

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        found = [document for document in self._all(table) if document["id"] == id_]
        if not found or not expected(found[0], expect):
            return False
        del self._tables[table.name][id_]
        return True

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        now_ms = self._clock.now_ms()
        return [
            self._put(table, patched(found, claim.patch, now_ms), found["version"] + 1)
            for found in self._find(table, claim.query, claim.order, claim.most)
        ]

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        now_ms = self._clock.now_ms()
        there = {document["id"]: document for document in self._all(table)}
        return [
            self._put(table, patched(found, write.patch, now_ms), found["version"] + 1)
            if (found := there.get(write.id)) and expected(found, write.expect)
            else None
            for write in writes
        ]

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        if key not in self._budgets:
            return None
        self._budgets[key], grant = lease(self._budgets[key], ask, self._clock.now_ms())
        return grant

    async def open_budget(self, key: str) -> None:
        self._budgets.setdefault(key, Budget())

    async def budget(self, key: str) -> Budget:
        return self._budgets.get(key, Budget())

    async def unblock(self, key: str, until_ms: int) -> bool:
        freed = unblocked(self._budgets.get(key, Budget()), until_ms)
        if freed is not None:
            self._budgets[key] = freed
        return freed is not None

    async def close(self) -> None: ...
