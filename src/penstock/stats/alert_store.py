"""Alerts in the state store, and the lease of the one process that evaluates and sends them."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from penstock.stats.alerts import Alert
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import ALERTS

_LEASE_ID, _LEASE = "lease", "lease"
_LEASE_MS = 45_000
_AT_ONCE = 1000
_MOST = 10_000
_DAY_MS = 86_400_000


async def read_alerts(store: StateStore) -> dict[str, Alert]:
    """All alerts by id.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found: dict[str, Alert] = {}
    last: Document | None = None
    while len(found) < _MOST and (page := await store.find(ALERTS, limit=_AT_ONCE, after=last)):
        last = page[-1]
        for document in page:
            alert = None if document["state"] == _LEASE else _read(document)
            if alert is not None:
                found[document["id"]] = alert
    return found


async def read_recent_alerts(store: StateStore, now_ms: int) -> list[Alert]:
    """The alerts that fire, and those that were resolved in the last day.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    recent = [Condition("state", "=", "resolved"), Condition("changed_at", ">", now_ms - _DAY_MS)]
    query = [[Condition("state", "=", "firing")], recent]
    found = map(_read, await store.find(ALERTS, query, limit=_AT_ONCE))
    return [alert for alert in found if alert is not None]


def _read(document: Document) -> Alert | None:
    try:
        return msgspec.convert(document["alert"], Alert)
    except msgspec.ValidationError:  # a newer version wrote it
        return None


async def write_alerts(store: StateStore, alerts: Iterable[Alert]) -> None:
    """Store alerts in place of what was stored of them.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    fields = {
        alert.id: {
            "state": alert.state,
            "changed_at": alert.changed_ms,
            "alert": msgspec.to_builtins(alert),
        }
        for alert in alerts
    }
    written = await store.write(ALERTS, [Write(id_, {}, each) for id_, each in fields.items()])
    for id_, document in zip(fields, written, strict=True):
        if document is None:
            await store.insert_if_absent(ALERTS, {"id": id_, **fields[id_]})


async def delete_alert(store: StateStore, id_: str) -> None:
    """Delete an alert.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    await store.delete(ALERTS, id_)


async def take_lease(store: StateStore, holder: str) -> Literal["taken", "renewed"] | None:
    """Take or renew the lease; None: another process has it.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    now_ms = await store.now_ms()
    taken = {"state": _LEASE, "changed_at": now_ms, "holder": holder, "until": now_ms + _LEASE_MS}

    is_own = False

    def change(found: Document) -> Document | None:
        nonlocal is_own
        is_own = found["holder"] == holder
        is_free = is_own or found["until"] <= now_ms
        return {**found, **taken} if is_free else None

    if await store.update(ALERTS, _LEASE_ID, change) is not None:
        return "renewed" if is_own else "taken"
    inserted = await store.insert_if_absent(ALERTS, {"id": _LEASE_ID, **taken})
    return "taken" if inserted.created else None


async def release_lease(store: StateStore, holder: str) -> None:
    """Give the lease back, so that another process takes it at once.

    Raises:
        StoreUnreachable: the store does not answer.
    """

    def change(found: Document) -> Document | None:
        return {**found, "until": 0} if found["holder"] == holder else None

    await store.update(ALERTS, _LEASE_ID, change)
