"""Alerting: one process of a fleet sends, to receivers that may be down, slow or wrong."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock
from penstock.config import Alerts, Secret
from penstock.config.monitoring import check_webhook
from penstock.errors import ConfigError, StoreUnreachable
from penstock.stats import alerting, webhook
from penstock.stats.alert_store import read_alerts, release_lease, take_lease
from penstock.stats.alerting import Alerting
from penstock.stats.alerts import Alert
from penstock.stats.facts import (
    AlertFired,
    AlertResolved,
    AlertsNotEvaluated,
    AlertsNotSent,
    AlertsSent,
    PostFailed,
)
from penstock.stats.webhook import BODIES, Message, NotDelivered, post
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import BREAKERS, SCHEMA
from penstock.telemetry import Fact

NOW_MS = 1_800_000_000_000
CANARY = "canary-4711"
SETTINGS = Alerts(webhook=Secret(f"https://hooks.example/{CANARY}"), cooldown=600)
ALERT = Alert(
    rule="gaps", subject="toy/trades", message="<!channel> & more", severity="warning",
    state="firing", since_ms=1, seen_ms=1, changed_ms=1,
)  # fmt: skip


@dataclass
class Receiver:
    """A webhook, without a network."""

    fails: Exception | None = None
    waits: asyncio.Event | None = None
    got: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, settings: Alerts, found: Sequence[Message]) -> None:
        assert settings.webhook == SETTINGS.webhook
        if self.waits is not None:
            await self.waits.wait()
        if self.fails is not None:
            raise self.fails
        self.got += [(each.what, each.alert.id) for each in found]


class Fleet:
    """A store, a clock, and processes that evaluate alerts."""

    def __init__(self, store: StateStore, clock: ManualClock) -> None:
        self.store, self.clock, self.receiver = store, clock, Receiver()
        self.facts: list[Fact] = []

    def process(self, name: str, settings: Alerts = SETTINGS) -> Alerting:
        return Alerting(
            self.store, settings, self.clock, self.facts.append, send=self.receiver, holder=name
        )

    async def breaks(self, *, broken: bool = True, exchange: str = "toy") -> None:
        breaker = {"phase": "open" if broken else "closed", "reason": "(503)"}
        document = {"id": exchange, "exchange_id": exchange, "breaker": breaker}
        if not (await self.store.insert_if_absent(BREAKERS, document)).created:
            await self.store.update(BREAKERS, exchange, lambda _: document)

    async def steps(self, process: Alerting, count: int = 1) -> None:
        for _ in range(count):
            await process.step()
            await process.sent()
            await self.clock.advance(10)

    def named(self, kind: type[Fact]) -> int:
        return sum(type(fact) is kind for fact in self.facts)


@pytest.fixture
async def fleet() -> Fleet:
    clock = ManualClock(NOW_MS)
    return Fleet(await open_store("memory:", clock=clock), clock)


FIRED, AGAIN, OVER = ((what, "breaker/toy") for what in ("firing", "still firing", "resolved"))


async def test_an_alert_is_sent_repeated_and_resolved(fleet: Fleet) -> None:
    one = fleet.process("one")
    await fleet.steps(one)
    assert fleet.receiver.got == []

    await fleet.breaks()
    await fleet.steps(one, 59)
    assert fleet.receiver.got == [FIRED]
    await fleet.steps(one, 2)
    assert fleet.receiver.got == [FIRED, AGAIN]
    await fleet.breaks(broken=False)
    await fleet.steps(one, 10)

    assert fleet.receiver.got == [FIRED, AGAIN, OVER]
    [alert] = (await read_alerts(fleet.store)).values()
    assert (alert.state, alert.message) == ("resolved", "the circuit breaker is open: (503)")
    assert [fleet.named(kind) for kind in (AlertFired, AlertResolved, AlertsSent)] == [1, 1, 3]


async def test_one_process_sends_and_another_goes_on_where_it_stopped(fleet: Fleet) -> None:
    one, two = fleet.process("one"), fleet.process("two")
    await fleet.breaks()
    for _ in range(6):
        await fleet.steps(one)
        await fleet.steps(two)
    assert fleet.receiver.got == [FIRED], "only one of them sends"

    # The first is killed: the other takes over when the lease has ended, and repeats nothing.
    await fleet.steps(two, 10)
    assert fleet.receiver.got == [FIRED]
    await fleet.breaks(broken=False)
    await fleet.steps(two, 10)
    assert fleet.receiver.got == [FIRED, OVER]
    await fleet.steps(one)
    assert fleet.receiver.got == [FIRED, OVER], "the first finds that it has lost the lease"


async def test_a_process_that_stops_gives_the_lease_back(fleet: Fleet) -> None:
    running = asyncio.create_task(fleet.process("one").run())
    while not await read_lease(fleet.store):
        await fleet.clock.advance(1)
    assert not await take_lease(fleet.store, "two")
    running.cancel()
    await asyncio.wait([running])

    assert await take_lease(fleet.store, "two")
    await release_lease(fleet.store, "one")
    assert not await take_lease(fleet.store, "one"), "only its holder gives it back"


async def read_lease(store: StateStore) -> bool:
    from penstock.storage.state.schema import ALERTS  # noqa: PLC0415

    return await store.get(ALERTS, "lease") is not None


async def test_a_receiver_that_fails_gets_it_later_and_once(fleet: Fleet) -> None:
    one = fleet.process("one")
    await fleet.breaks()
    for error in (RuntimeError(SETTINGS.webhook.reveal()), NotDelivered("answered 500")):
        fleet.receiver.fails = error
        await fleet.steps(one, 30)
    assert fleet.named(AlertsNotSent) == 1, "it is said once"
    assert fleet.named(PostFailed) > 3, "every attempt is counted"
    assert (await read_alerts(fleet.store))["breaker/toy"].sent is None

    fleet.receiver.fails = None
    await fleet.steps(one, 40)

    assert fleet.receiver.got == [FIRED]
    assert CANARY not in repr(fleet.facts)


async def test_what_was_over_before_it_could_be_sent_is_not_sent(fleet: Fleet) -> None:
    one = fleet.process("one")
    fleet.receiver.fails = NotDelivered("answered 500")
    await fleet.breaks()
    await fleet.steps(one, 3)
    await fleet.breaks(broken=False)
    await fleet.steps(one, 10)
    fleet.receiver.fails = None
    await fleet.steps(one, 60)

    assert fleet.receiver.got == []


async def test_a_receiver_that_hangs_delays_no_evaluation_and_gets_one_post_at_a_time(
    fleet: Fleet,
) -> None:
    one = fleet.process("one")
    fleet.receiver.waits = asyncio.Event()
    await fleet.breaks()
    for number in range(50):
        await one.step()
        await fleet.breaks(exchange=f"x{number}")
        await fleet.clock.advance(10)
    assert len(await read_alerts(fleet.store)) == 50, "all are evaluated and stored"
    assert fleet.receiver.got == []

    fleet.receiver.waits.set()
    await one.sent()
    assert fleet.receiver.got == [FIRED]
    await fleet.steps(one)
    assert len(fleet.receiver.got) == 51
    assert len(set(fleet.receiver.got)) == 51


async def test_a_wait_that_the_receiver_asks_for_is_kept(fleet: Fleet) -> None:
    one = fleet.process("one")
    fleet.receiver.fails = NotDelivered("answered 429", retry_s=400)
    await fleet.breaks()
    await fleet.steps(one)
    fleet.receiver.fails = None
    await fleet.steps(one, 39)
    assert fleet.receiver.got == []
    await fleet.steps(one, 2)
    assert fleet.receiver.got == [FIRED]


async def test_without_a_webhook_alerts_are_kept_and_sent_once_there_is_one(fleet: Fleet) -> None:
    await fleet.breaks()
    silent = fleet.process("one", Alerts())
    await fleet.steps(silent, 3)
    assert set(await read_alerts(fleet.store)) == {"breaker/toy"}
    assert fleet.receiver.got == []

    await fleet.steps(fleet.process("one"))
    assert fleet.receiver.got == [FIRED]


async def test_a_store_that_does_not_answer_is_said_once_and_waited_for() -> None:
    class Fickle(MemoryBackend):
        silent = False

        async def now_ms(self) -> int:
            if self.silent:
                raise StoreUnreachable("somewhere", "no answer")
            return await super().now_ms()

    clock = ManualClock(NOW_MS)
    backend = Fickle(clock)
    await backend.prepare(SCHEMA)
    fleet = Fleet(StateStore(backend, 5), clock)
    one = fleet.process("one")
    await fleet.breaks()
    backend.silent = True
    await fleet.steps(one, 5)
    assert [fleet.named(AlertsNotEvaluated), fleet.receiver.got] == [1, []]

    backend.silent = False
    await fleet.steps(one)
    assert fleet.receiver.got == [FIRED]


async def test_what_another_process_sent_meanwhile_is_not_sent_again(fleet: Fleet) -> None:
    one, two = fleet.process("one"), fleet.process("two")
    await fleet.steps(one)
    await fleet.clock.advance(60)  # the store does not answer to the first
    await fleet.breaks()
    await fleet.steps(two)
    await release_lease(fleet.store, "two")
    assert fleet.receiver.got == [FIRED]

    await fleet.steps(one, 3)
    assert fleet.receiver.got == [FIRED]


async def test_two_processes_of_the_same_host_name_and_process_id_have_different_leases(
    fleet: Fleet,
) -> None:
    one, two = fleet.process(""), fleet.process("")
    await fleet.steps(one)
    await fleet.breaks()
    await one.step()
    await two.step()
    await asyncio.gather(one.sent(), two.sent())

    assert fleet.receiver.got == [FIRED]


async def test_an_unexpected_error_is_said_and_the_next_step_evaluates(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise KeyError("x")

    one = fleet.process("one")
    await fleet.breaks()
    with monkeypatch.context() as patched:
        patched.setattr(alerting, "read_inputs", fail)
        await fleet.steps(one, 2)
    assert [fleet.named(AlertsNotEvaluated), fleet.receiver.got] == [1, []]

    await fleet.steps(one)
    assert fleet.receiver.got == [FIRED]


async def test_old_alerts_are_deleted(fleet: Fleet) -> None:
    one = fleet.process("one")
    await fleet.breaks()
    await fleet.steps(one)
    await fleet.breaks(broken=False)
    await fleet.steps(one, 10)
    await fleet.clock.advance(8 * 86_400)
    await fleet.steps(one, 2)

    assert await read_alerts(fleet.store) == {}


@asynccontextmanager
async def listening(answer: Any) -> AsyncIterator[tuple[Alerts, list[bytes]]]:
    """A web server that answers as told, and what was posted to it."""
    got: list[bytes] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        got.append(await request.read())
        found: web.StreamResponse = await answer(request)
        return found

    server = web.Server(handle)
    listened = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    port = listened.sockets[0].getsockname()[1]
    yield Alerts(webhook=Secret(f"http://127.0.0.1:{port}/{CANARY}"), format="json"), got
    listened.close()
    await server.shutdown(0.1)


def answers(status: int, **headers: str) -> Any:
    async def answer(_: web.BaseRequest) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, headers=named, body=b"x" * 100_000)

    return answer


async def test_a_message_is_posted_as_json() -> None:
    async with listening(answers(204)) as (settings, got):
        await post(settings, [Message("firing", ALERT)])

    [body] = map(msgspec.json.decode, got)
    assert body["alerts"][0]["subject"] == "toy/trades"
    assert body["alerts"][0]["what"] == "firing"


@pytest.mark.parametrize(
    ("answer", "words", "retry_s"),
    [
        (answers(500), "answered 500", 0),
        (answers(429, Retry_After="7"), "answered 429", 7),
        (answers(429, Retry_After="99999999"), "answered 429", 3600),
        (answers(302, Location="http://127.0.0.1:1/"), "answered 302", 0),
    ],
)
async def test_what_is_not_accepted_is_said_without_the_address(
    answer: Any, words: str, retry_s: float
) -> None:
    async with listening(answer) as (settings, _):
        with pytest.raises(NotDelivered, match=words) as refused:
            await post(settings, [Message("firing", ALERT)])

    assert refused.value.retry_s == retry_s
    assert CANARY not in str(refused.value)


async def test_a_receiver_that_is_down_cuts_off_or_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def sleep(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(PATIENCE_S)
        return web.Response()

    found = []
    for answer in (cut, sleep):
        monkeypatch.setattr(webhook, "_TIMEOUT_S", 0.2)
        async with listening(answer) as (settings, _):
            with pytest.raises(NotDelivered) as refused:
                await post(settings, [Message("firing", ALERT)])
            found.append(str(refused.value))
    with pytest.raises(NotDelivered) as refused:
        await post(settings, [Message("firing", ALERT)])
    found.append(str(refused.value))

    assert [words.partition("(alerts.webhook) ")[2] for words in found] == [
        "cannot be reached: ServerDisconnectedError",
        "did not answer within 0.2 s",
        "cannot be reached: ClientConnectorError",
    ]
    assert CANARY not in repr(found)


def test_the_forms_are_those_of_slack_and_discord() -> None:
    many = [Message("firing", ALERT), *[Message("resolved", ALERT)] * 99]

    slack = BODIES["slack"](many)
    assert set(slack) == {"text"}
    assert slack["text"].splitlines()[0] == (
        "🔴 firing: gaps toy/trades: &lt;!channel&gt; &amp; more"
    )
    assert slack["text"].endswith("and 80 more. See: penstock alerts")
    long = msgspec.structs.replace(ALERT, message="x\n" * 5000)
    discord = BODIES["discord"]([Message("firing", long)] * 100)
    assert discord["allowed_mentions"] == {"parse": []}, "nobody is called by a symbol's name"
    assert len(discord["content"]) <= 2000
    assert all(len(line) <= 400 for line in discord["content"].splitlines())


def test_secrets_in_addresses_are_masked() -> None:
    leaky = msgspec.structs.replace(ALERT, message="postgresql://me:canary@db/x does not answer")

    assert all("canary" not in repr(body([Message("firing", leaky)])) for body in BODIES.values())


@pytest.mark.parametrize("address", [f"ftp://x/{CANARY}", CANARY, f"https:///{CANARY}",
                                     f"https://x/ {CANARY}", f"https://[{CANARY}"])  # fmt: skip
def test_a_wrong_address_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(ConfigError, match=r"alerts\.webhook") as refused:
        check_webhook(Alerts(webhook=Secret(address)))

    assert CANARY not in str(refused.value)
    check_webhook(Alerts())
    check_webhook(SETTINGS)
