"""Checks that the files of the lake are there, whole and readable."""

from collections.abc import Iterator

from penstock.dataset.cold import Cold
from penstock.dataset.verify.findings import Finding
from penstock.errors import StorageError
from penstock.market.channels import BY_EVENT


def check_files(lake: Cold) -> Iterator[Finding]:
    """Read every file of every table; there is one finding for each table that is damaged."""
    for row in BY_EVENT.values():
        try:
            table = lake.table(row)
            if table is not None:
                table.check_files()
        except StorageError as error:
            yield Finding(
                check="files", exchange="", channel=row.name, symbol="", problem=str(error)
            )
