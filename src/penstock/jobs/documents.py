"""Converts jobs to the documents of the store, and back."""

from collections.abc import Mapping
from contextlib import suppress
from operator import itemgetter

import msgspec

from penstock.jobs.kinds import AnyKind, as_form
from penstock.jobs.model import EVENTS_KEPT, Job
from penstock.jobs.transitions import stored_progress
from penstock.storage.state import Document
from penstock.storage.state.job_targets import with_target

# Not of the job itself: events are stored in two lists, the store counts versions, and whether a
# kind is known depends on who reads.
_APART = ("events", "version", "is_known")


def as_job(document: Document, kinds: Mapping[str, AnyKind]) -> Job:
    """Return the job that a document holds.

    A newer version may have kinds, cursors and states that this one does not know. Then target and
    cursor stay documents.

    Events are stored in two lists: the job service and the worker that holds the job write
    concurrently, each to its own list.
    """
    events = [*document.get("orders", ()), *document.get("doings", ())]
    if len(events) > 1:
        events.sort(key=itemgetter("at"))
    found = {**document, "events": events[-EVENTS_KEPT:]}
    if document.get("target") is None:  # an older penstock that still runs may write such a job
        found.update(with_target(document) or {})
    kind = kinds.get(document["type"])
    if kind is not None:
        target, cursor = found["target"], found["cursor"]
        try:
            found["target"] = as_form(target, kind.target_type)
            found["cursor"] = as_form(cursor, kind.cursor_type)
            return msgspec.convert(found, Job)
        except msgspec.ValidationError:
            found["target"], found["cursor"] = target, cursor
    return Job(**{"cursor": {}, **_readable(found), "is_known": False})


def _readable(document: Document) -> Document:
    """Return the fields of a job that this version can read; the others have their defaults."""
    readable: Document = {}
    for field in msgspec.structs.fields(Job):
        if field.name in document:
            with suppress(msgspec.ValidationError):
                readable[field.name] = msgspec.convert(document[field.name], field.type)
    return readable


def as_document(job: Job) -> Document:
    """Return the fields of a document that are the job itself; the store adds the version."""
    document: Document = msgspec.to_builtins(job)
    for field in _APART:
        del document[field]
    document["progress"] = stored_progress(job.progress)
    return document
