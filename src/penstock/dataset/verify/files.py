"""Checks that the files of the lake are there, and are what they were when they were sealed."""

from collections.abc import Iterator

from penstock.dataset.cold import Cold
from penstock.dataset.verify.findings import Finding, Report
from penstock.errors import StorageError
from penstock.market.channels import BY_EVENT


def check_files(lake: Cold, report: Report) -> Iterator[Finding]:
    """Read every file of every table, and compare it with its digest if it has one."""
    for row in BY_EVENT.values():
        found, unverified = list[str](), 0
        try:
            for path, problem in lake.damaged_files(row):
                if problem == "unverified":
                    unverified += 1
                else:
                    found.append(f"the file {path} of the lake is {problem}")
            table = lake.table(row)
            if table is not None and not found:
                report.compared["files"] += table.check_files() - unverified
        except StorageError as error:
            found.append(str(error))
        if unverified:
            report.not_checked.append(
                f"{unverified:,} files of {row.name}: they have no digest yet, which the keeper"
                " stores once it has compared their rows with the log"
            )
        for text in found:
            yield Finding(check="files", exchange="", channel=row.name, symbol="", problem=text)
