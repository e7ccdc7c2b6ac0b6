"""How the last backup of each log ended, as a document in the state store."""

from typing import Any

import msgspec
from msgspec import Struct

from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import BACKUPS

_MOST = 1000


class BackupOutcome(Struct, frozen=True, kw_only=True):
    """The last backup of a log, and the last that was verified."""

    log_id: str
    folder: str
    """The data folder, on ``host``."""
    host: str
    at_ms: int
    """When the last backup was begun, whether it succeeded or not."""
    seconds: float = 0.0
    name: str = ""
    """The last backup that was made."""
    made_ms: int | None = None
    size_bytes: int = 0
    content_bytes: int = 0
    """The bytes of all files in it."""
    problem: str = ""
    """Why the last attempt failed, or what its rehearsal found."""
    verified: str = ""
    """The last backup that was restored and checked without a finding."""
    verified_ms: int | None = None
    copied_ms: int | None = None
    """When the remote copies were last compared with the backups, and were equal."""
    copy_problem: str = ""
    """Why the last attempt to do so failed."""


async def write_outcome(store: StateStore, outcome: BackupOutcome) -> None:
    """Store an outcome; what it does not say of earlier backups stays.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    new = msgspec.to_builtins(outcome)

    def merged(document: Document) -> dict[str, Any]:
        kept = dict(new)
        for name, fields in (("name", _MADE), ("verified", _VERIFIED), ("copied_ms", _COPIED)):
            if not new[name]:
                kept |= {field: document[field] for field in fields if field in document}
        return {**document, **kept}

    inserted = await store.insert_if_absent(BACKUPS, {**new, "id": outcome.log_id})
    if not inserted.created:
        await store.update(BACKUPS, outcome.log_id, merged)


async def write_copied(store: StateStore, log_id: int, at_ms: int, problem: str) -> None:
    """Store how a sync with the remote ended, if there was a backup.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    copied = {"copy_problem": problem} | ({} if problem else {"copied_ms": at_ms})
    await store.update(BACKUPS, f"{log_id:x}", lambda document: {**document, **copied})


_MADE = ("name", "made_ms", "size_bytes", "content_bytes")
_VERIFIED = ("verified", "verified_ms")
_COPIED = ("copied_ms", "copy_problem")


async def read_outcomes(store: StateStore) -> list[BackupOutcome]:
    """The last backup of every log that has one.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    documents = await store.find(BACKUPS, limit=_MOST)
    found = map(_read, documents)
    return [each for each in found if each is not None]


def _read(document: Document) -> BackupOutcome | None:
    try:
        return msgspec.convert(document, BackupOutcome)
    except msgspec.ValidationError:  # a newer version wrote it
        return None
