"""Checks that an object store rejects an object that exists already (conditional put).

Without that, two commits at the same time are both acknowledged and one of them is lost. Stores
that do not support it ignore the condition without an error, so it is tried: several threads commit
to a small table at the same moment, and all of their rows must be there afterwards.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from threading import Barrier

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from penstock.errors import StorageError
from penstock.storage.lake.failures import lake_errors

_AT_ONCE, _ROUNDS, _RETRIES = 3, 2, 100
_SCHEMA = pa.schema([("n", pa.int64())])


def check_conditional_put(url: str, options: Mapping[str, str]) -> None:
    """Commit to a temporary table at a URL from several threads at once.

    Raises:
        StorageError: commits were lost, or the store cannot be written.
    """
    uri, storage = f"{url.rstrip('/')}/_probe/{token_hex(8)}", dict(options) or None
    with lake_errors(url):
        DeltaTable.create(uri, _SCHEMA, storage_options=storage)
        try:
            for number in range(_ROUNDS):
                _commit_at_once(uri, storage, number)
            rows = DeltaTable(uri, storage_options=storage).count()
        finally:
            DeltaStorageHandler(uri, options=storage).delete_dir("")
    if rows != _AT_ONCE * _ROUNDS:
        raise StorageError(
            url,
            f"the object store lost {_AT_ONCE * _ROUNDS - rows} of {_AT_ONCE * _ROUNDS} commits"
            " that were made at the same time: it ignores conditional puts",
            "Use a store that supports them; or, if only one process ever writes to this lake, set"
            " storage.lake_single_writer. Nothing was changed.",
        )


def _commit_at_once(uri: str, storage: dict[str, str] | None, number: int) -> None:
    tables = [DeltaTable(uri, storage_options=storage) for _ in range(_AT_ONCE)]
    together = Barrier(_AT_ONCE)

    def commit(n: int) -> None:
        rows = pa.table({"n": [number * _AT_ONCE + n]}, schema=_SCHEMA)
        together.wait()
        write_deltalake(
            tables[n], rows, mode="append",
            commit_properties=CommitProperties(max_commit_retries=_RETRIES),
        )  # fmt: skip

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(commit, range(_AT_ONCE)))
