"""The version of the tables' format, stored in each table."""

from deltalake import DeltaTable

from penstock.errors import NewerStore, StorageError
from penstock.storage.lake import FORMAT

FORMAT_KEY = "penstock.format"


def check_format(uri: str, table: DeltaTable) -> None:
    """Check that this version can read a table.

    Raises:
        NewerStore: a newer penstock wrote it.
        StorageError: it is not a table of penstock.
    """
    found = table.metadata().configuration.get(FORMAT_KEY, "")
    if not found.isdigit():
        problem = "is a Delta table that penstock did not create"
        raise StorageError(uri, problem, "Choose another folder with storage.lake_url.")
    if int(found) > FORMAT:
        raise NewerStore(uri, int(found), FORMAT)
