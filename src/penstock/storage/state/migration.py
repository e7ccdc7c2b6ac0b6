"""Migrates a store to a schema, and the documents that earlier versions wrote.

The documents of a table are rewritten before the step that needs their new form. They are patched
in batches, and a patch names only the fields that are new, so that a process that changes the same
documents meanwhile loses nothing. A migration that is killed is continued by the next process that
opens the store: documents that have the new form are skipped.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.storage.state.documents import Document, Query, Write, beyond, field_of
from penstock.storage.state.schema import Rewrite, Schema, Table
from penstock.storage.timeouts import in_time

# A batch is one write, so it has to end within the timeout of one.
_BATCH = 500


class Migrated(Protocol):
    """What a migration needs of a backend; see ``Backend``."""

    @property
    def where(self) -> str: ...

    async def prepare(self, schema: Schema, known: int | None = None) -> int: ...

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]: ...

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]: ...


async def migrate(backend: Migrated, schema: Schema, timeout_s: float) -> None:
    """Apply the steps of a schema that a store does not have yet, and rewrite its documents.

    Raises:
        NewerStore: it has a newer schema. Nothing was changed.
        StoreUnreachable: a step, or a batch of documents, took longer than the timeout.
    """
    for number, step in enumerate(schema):
        for table in step:
            if table.rewrite is None:
                continue
            async with in_time(backend.where, timeout_s):
                found = await backend.prepare(schema[:number], len(schema))
            if found == len(schema):
                return
            if found <= number:
                await _rewrite(backend, table, table.rewrite, timeout_s)
    async with in_time(backend.where, timeout_s):
        await backend.prepare(schema)


async def _rewrite(backend: Migrated, table: Table, rewrite: Rewrite, timeout_s: float) -> None:
    """Patch all documents of a table that need it, also those that are changed meanwhile."""
    query: Query = ()
    was_changed = False
    while True:
        async with in_time(backend.where, timeout_s):
            page = await backend.find(table, query, (), _BATCH)
            writes = [
                Write(one["id"], _values(one, rewrite.guards), patch)
                for one in page
                if (patch := rewrite.patch(one)) is not None
            ]
            written = await backend.write(table, writes) if writes else []
        was_changed = was_changed or None in written
        if page:
            query = beyond((), (), page[-1])
        elif was_changed:
            query, was_changed = (), False
        else:
            return


def _values(document: Document, paths: Iterable[str]) -> dict[str, str | int]:
    found = {path: field_of(document, path) for path in paths}
    return {path: value for path, value in found.items() if value is not None}
