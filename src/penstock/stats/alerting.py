"""Evaluates alerts again and again, and sends them.

Several processes may do so; the one that holds the lease in the state store does. What was sent is
stored with each alert, so another one goes on where it stopped. A message is posted in a task of
its own: however long the receiver takes, alerts are evaluated, and there is one post at a time.
What it did not accept is due again, so there is no queue that could grow.
"""

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import random
from uuid import uuid4

from penstock.clock import Clock
from penstock.config import Alerts
from penstock.errors import StorageError
from penstock.resilience.backoff import Backoff
from penstock.stats.alert_store import (
    delete_alert,
    read_alerts,
    release_lease,
    take_lease,
    write_alerts,
)
from penstock.stats.alerts import Alert, as_sent, evaluate, is_outdated, to_send
from penstock.stats.conditions import StartCounter, find_conditions
from penstock.stats.facts import (
    AlertFired,
    AlertResolved,
    AlertsNotEvaluated,
    AlertsNotSent,
    AlertsSent,
    PostFailed,
)
from penstock.stats.inputs import read_inputs
from penstock.stats.webhook import Message, NotDelivered, post
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

_EVERY_S = 10.0
_STORE_MS = 60_000
"""An alert that only was seen again is stored after this time."""
_RELEASE_S = 0.5
_RETRIES = Backoff(first_s=5.0, longest_s=300.0)
_NS = 1_000_000_000

Post = Callable[[Alerts, Sequence[Message]], Awaitable[None]]


class Alerting:
    """The alerts of a fleet, evaluated and sent by this process if no other does."""

    def __init__(
        self,
        store: StateStore,
        settings: Alerts,
        clock: Clock,
        emit: Listener = quiet,
        *,
        send: Post = post,
        holder: str = "",
    ) -> None:
        self._store, self._settings, self._clock, self._emit = store, settings, clock, emit
        self._send = send
        # Containers may share a host name, and each may have the same process id.
        self._holder = holder or f"{platform.node()}/{os.getpid()}/{uuid4().hex}"
        self._starts = StartCounter()
        self._alerts: dict[str, Alert] | None = None
        """None while another process has the lease."""
        self._stored: dict[str, Alert] = {}
        self._storing = asyncio.Lock()
        self._now_ms = 0
        self._posting: asyncio.Task[None] | None = None
        self._failures, self._retry_ns = 0, 0
        self._has_warned = False

    async def run(self) -> None:
        """Evaluate and send, for ever."""
        try:
            while True:
                await self.step()
                await self._clock.sleep(_EVERY_S)
        finally:
            if self._posting is not None:
                self._posting.cancel()
            if self._alerts is not None:
                with suppress(Exception):
                    async with asyncio.timeout(_RELEASE_S):
                        await release_lease(self._store, self._holder)

    async def step(self) -> None:
        """Evaluate once, if no other process does, and begin to send what is due."""
        try:
            taken = await take_lease(self._store, self._holder)
            if taken != "renewed":
                # Another process may have sent alerts meanwhile: they are read again.
                self._alerts = None
            if taken is None:
                return
            await self._evaluate()
        except Exception as error:
            # Whatever it is, such as a document of a newer version: the next step tries again.
            if not self._has_warned:
                known = isinstance(error, StorageError)
                self._emit(AlertsNotEvaluated(reason=str(error) if known else repr(error)))
            self._has_warned = True
            return
        self._has_warned = False
        self._begin_to_send()

    async def sent(self) -> None:
        """Wait until what is being sent was accepted or not."""
        if self._posting is not None:
            await self._posting

    async def _evaluate(self) -> None:
        if self._alerts is None:
            found = await read_alerts(self._store)
            self._alerts, self._stored = dict(found), dict(found)
        inputs = await read_inputs(self._store, self._settings, self._starts)
        self._now_ms = inputs.now_ms
        for id_, alert in evaluate(self._alerts, find_conditions(inputs), inputs.now_ms).items():
            before = self._alerts.get(id_)
            self._alerts[id_] = alert
            if before is None or before.state != alert.state:
                self._report(alert)
        await self._store_changed()
        for id_ in [id_ for id_, each in self._alerts.items() if is_outdated(each, self._now_ms)]:
            await delete_alert(self._store, id_)
            del self._alerts[id_], self._stored[id_]

    def _report(self, alert: Alert) -> None:
        rule, subject = alert.rule, alert.subject
        if alert.state == "firing":
            self._emit(AlertFired(rule=rule, subject=subject, message=alert.message))
        else:
            self._emit(AlertResolved(rule=rule, subject=subject))

    async def _store_changed(self) -> None:
        async with self._storing:
            changed = [
                alert
                for alert in (self._alerts or {}).values()
                if _is_to_be_stored(alert, self._stored.get(alert.id))
            ]
            await write_alerts(self._store, changed)
            self._stored |= {alert.id: alert for alert in changed}

    def _begin_to_send(self) -> None:
        is_posting = self._posting is not None and not self._posting.done()
        is_early = self._clock.monotonic_ns() < self._retry_ns
        if not self._settings.webhook.reveal() or is_posting or is_early:
            return
        cooldown_ms = round(self._settings.cooldown * 1000)
        due = [
            Message(what, alert)
            for alert in (self._alerts or {}).values()
            if (what := to_send(alert, self._now_ms, cooldown_ms)) is not None
        ]
        # What is most urgent first: a receiver may show only so much.
        due.sort(key=lambda each: (each.what == "resolved", each.alert.severity != "critical"))
        if due:
            self._posting = asyncio.create_task(self._post(due))

    async def _post(self, due: Sequence[Message]) -> None:
        try:
            await self._send(self._settings, due)
        except Exception as error:
            # Whatever it is: alerts are evaluated on, and what is due is sent later.
            delay_s = _RETRIES.delay(self._failures, random())
            if isinstance(error, NotDelivered):
                delay_s = max(delay_s, error.retry_s)
            self._retry_ns = self._clock.monotonic_ns() + round(delay_s * _NS)
            self._emit(PostFailed())
            if self._failures == 0:
                known = isinstance(error, NotDelivered)
                self._emit(AlertsNotSent(reason=str(error) if known else type(error).__name__))
            self._failures += 1
            return
        self._failures = 0
        self._emit(AlertsSent(alerts=len(due)))
        for what, alert in due:
            if self._alerts is not None and alert.id in self._alerts:
                self._alerts[alert.id] = as_sent(self._alerts[alert.id], what, self._now_ms)
        # If the store is away, the next step stores it.
        with suppress(StorageError):
            await self._store_changed()


def _is_to_be_stored(alert: Alert, stored: Alert | None) -> bool:
    if stored is None:
        return True
    now, before = (
        (alert.state, alert.sent, alert.sent_ms),
        (stored.state, stored.sent, stored.sent_ms),
    )
    return now != before or alert.seen_ms - stored.seen_ms >= _STORE_MS
