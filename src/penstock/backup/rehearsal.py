"""Restores a backup into a temporary folder, and checks what was restored.

Every file is compared with its digest, the log and the state are opened, and the records are
checked as ``penstock verify`` does.
"""

import asyncio
import shutil
import threading
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from penstock.backup.folder import REHEARSAL_FOLDER, Rehearsal
from penstock.backup.manifest import STATE, Manifest
from penstock.backup.restore import restore
from penstock.clock import Clock
from penstock.errors import BadBackup, NoDataset, PenstockError, StorageError
from penstock.storage.log import open_log
from penstock.storage.state import open_store

_SHOWN = 20


async def rehearse(
    archive: Path,
    digest: str,
    clock: Clock,
    lake_url: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Rehearsal:
    """Restore a backup beside it, check the copy, and remove it.

    ``lake_url`` is that of a lake in an object store, which is not in the backup. A backup that
    cannot be restored, for lack of space for instance, is not verified.
    """
    folder = archive.parent / REHEARSAL_FOLDER
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
    is_cancelled = threading.Event()

    def check_cancelled(_: int) -> None:
        if is_cancelled.is_set():
            raise asyncio.CancelledError

    try:
        try:
            manifest = await asyncio.to_thread(
                restore, archive, folder, check_cancelled, keep_log_id=True
            )
        except asyncio.CancelledError:
            is_cancelled.set()
            raise
        except (BadBackup, StorageError) as error:
            return Rehearsal(at=at, digest=digest, verified=False, findings=[str(error)])
        return await _check(folder, manifest, lake_url, storage_options, at=at, digest=digest)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _check(
    folder: Path,
    manifest: Manifest,
    lake_url: str | None,
    storage_options: Mapping[str, str] | None,
    *,
    at: str,
    digest: str,
) -> Rehearsal:
    compared: dict[str, int] = {}
    findings: list[str] = []
    not_checked = [
        f"{name}: {part.note}" for name, part in manifest.parts.items() if not part.included
    ]
    try:
        if (folder / STATE).exists():
            store = await open_store(f"sqlite:{folder / STATE}", read_only=True)
            await store.close()
        found = await asyncio.to_thread(_slots, folder)
        findings += [f"slot {each} is missing" for each in manifest.slots if each not in found]
        await asyncio.to_thread(
            _verify, folder, lake_url, storage_options, compared, findings, not_checked
        )
    except PenstockError as error:
        findings.append(str(error))
    return Rehearsal(
        at=at,
        digest=digest,
        verified=not findings,
        files=len(manifest.files),
        size_bytes=manifest.size,
        compared=compared,
        findings=findings[:_SHOWN],
        not_checked=not_checked,
    )


def _slots(folder: Path) -> list[str]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        return [slot.slot for slot in reader.stats()]


def _verify(
    folder: Path,
    lake_url: str | None,
    storage_options: Mapping[str, str] | None,
    compared: dict[str, int],
    findings: list[str],
    not_checked: list[str],
) -> None:
    try:
        from penstock.dataset.opening import open_place  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError:
        not_checked.append("records: the extra lake is not installed")
        return
    try:
        data = open_place(folder, lake_url=lake_url, storage_options=storage_options)
    except NoDataset:  # a store without records
        return
    report = data.verify()
    compared.update(report.compared)
    findings += [str(each) for each in report.findings]
    not_checked += report.not_checked
