"""Lists the files of a lake in a folder, as of the current version of every table.

A version never changes: its data files stay until a vacuum removes those that no recent version
uses, and the files of its log until newer ones replace them. So what is listed can be copied while
keepers write. Only ``deltalake`` is imported: the other libraries of a lake take much more memory.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.errors import MissingExtra, StorageError

_LOG = "_delta_log"
_LOG_FILE = re.compile(
    r"(\d{20})(\.json|\.checkpoint\.parquet|\.checkpoint\.\d{10}\.\d{10}\.parquet)"
)
_FIRST, _LAST = "coverage", "digests"
"""The table of coverage is listed first, since it must not claim what other tables lack. That of
digests is listed last: it should have those of all files."""


class TableFiles(NamedTuple):
    """One table at one version; paths are relative to the lake."""

    name: str
    version: int
    log: list[str]
    data: list[str]


def list_files(folder: Path) -> Iterator[TableFiles]:
    """The tables of a lake.

    Raises:
        MissingExtra: the library of the lake is not installed.
        StorageError: a table cannot be read.
    """
    names = [path.parent.name for path in folder.glob(f"*/{_LOG}") if path.is_dir()]
    if not names:
        return
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 (an extra)
        from deltalake.exceptions import DeltaError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "deltalake", "lake") from error
    for name in sorted(names, key=lambda name: (name == _LAST, name != _FIRST, name)):
        try:
            table = DeltaTable(folder / name)
            version, data = table.version(), table.file_uris()
        except DeltaError as error:
            raise StorageError(str(folder / name), str(error)) from error
        # They begin with the real path of the table, with some characters written as %XX.
        depth = len((folder / name).resolve().parts)
        yield TableFiles(
            name,
            version,
            sorted(_log_files(folder, name, version)),
            sorted("/".join((name, *Path(path).parts[depth:])) for path in data),
        )


def _log_files(folder: Path, name: str, version: int) -> Iterator[str]:
    for path in (folder / name / _LOG).iterdir():
        match = _LOG_FILE.fullmatch(path.name)
        if match is not None and int(match[1]) <= version:
            yield f"{name}/{_LOG}/{path.name}"
