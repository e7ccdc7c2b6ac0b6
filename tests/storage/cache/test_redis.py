"""Redis that is away, paused, full, closed or odd: a clear error in time, and no secrets in it."""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from tests.certificates import certificate
from tests.servers import RedisServer, free_port
from tests.waiting import PATIENCE_S

from penstock.errors import ConfigError, LoginRejected, StorageError, StorageFull, StoreUnreachable
from penstock.storage.cache import LiveStore, LiveValue, open_live_store
from penstock.storage.cache.facts import LiveChangesLost
from penstock.storage.cache.redis_urls import parse
from penstock.telemetry import Fact

PASSWORD = "hunter2-%40-x"


def value(key: str = "a", number: int = 1, text: str = "x", ttl_ms: int = 300_000) -> LiveValue:
    return LiveValue(key, msgspec.json.encode(text), ttl_ms, 0, "u", number)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One of its own, to be stopped."""
    with RedisServer() as server:
        yield server


async def until(store: LiveStore, number: int) -> None:
    """Wait until a value can be written and read."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnreachable):
                await store.put("ticks", [value(number=number)])
                found = await store.get("ticks", "a")
                if found is not None and found.number == number:
                    return


async def pings(server: Redis) -> int:
    """How many pings the server has answered."""
    stats = await server.info("commandstats")
    return int(stats.get("cmdstat_ping", {"calls": 0})["calls"])


async def test_a_wrong_password_is_said_and_never_shown() -> None:
    with RedisServer("--requirepass", "hunter2-@-x") as server:
        place = server.url.removeprefix("redis://")
        store = await open_live_store(f"redis://:{PASSWORD}@{place}", timeout_s=30)
        assert await store.put("ticks", [value()]) == 1
        assert "hunter2" not in store.where
        await store.close()

        for wrong in (":hunter3-secret@", "me:hunter3-secret@", ""):
            with pytest.raises(LoginRejected, match="Check the name and the password") as refusal:
                await open_live_store(f"redis://{wrong}{place}", timeout_s=30)
            assert "hunter3" not in str(refusal.value)
            assert place in str(refusal.value)


async def test_a_user_who_may_not_write_is_told_so(server: RedisServer) -> None:
    async with Redis(port=server.port) as admin:
        await admin.acl_setuser("reader", enabled=True, nopass=True, commands=["+ping"], keys=["*"])
    place = server.url.removeprefix("redis://")
    store = await open_live_store(f"redis://reader:x@{place}", timeout_s=30)

    with pytest.raises(LoginRejected, match="reader"):
        await store.put("ticks", [value()])
    await store.close()


async def test_a_user_with_the_documented_commands_may_do_everything(server: RedisServer) -> None:
    page = (Path(__file__).parents[3] / "docs" / "live.md").read_text()
    [listed] = re.findall(r"restricted commands needs\s(.*?)\.\n", page, re.S)
    commands = [f"+{name.lower()}" for name in re.findall(r"`([A-Z]+)`", listed)]
    async with Redis(port=server.port) as admin:
        await admin.acl_setuser(
            "live", enabled=True, nopass=True, commands=commands,
            keys=["penstock:*"], channels=["penstock:*"],
        )  # fmt: skip
    place = server.url.removeprefix("redis://")
    store = await open_live_store(f"redis://live:x@{place}", timeout_s=30)
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        await store.put("ticks", [value()])
        assert [each.number for each in await changes.next_batch()] == [1]
        assert await store.get("ticks", "a") is not None
        await store.remove("ticks", ["a"])
        assert await store.find("ticks") == []
    await store.close()


async def test_a_server_out_of_memory_is_named_as_such_and_recovers(server: RedisServer) -> None:
    store = await open_live_store(server.url, timeout_s=30)
    async with Redis(port=server.port) as admin:
        await admin.config_set("maxmemory", "1")
        many = [value(f"k{number}") for number in range(600)]
        for batch in ([value()], many):
            with pytest.raises(StorageFull, match="maxmemory") as failure:
                await store.put("ticks", batch)
            assert len(str(failure.value)) < 300, "it does not quote the batch"
        await admin.config_set("maxmemory", "0")

    assert await store.put("ticks", many) == 600
    await store.close()


async def test_a_paused_server_is_given_up_in_time_and_found_again(server: RedisServer) -> None:
    store = await open_live_store(server.url, timeout_s=0.5)
    await until(store, 1)
    with server.paused():
        begun = time.monotonic()
        for _ in range(3):
            with pytest.raises(StoreUnreachable, match="Check that it is running"):
                await store.put("ticks", [value(number=2)])
        # More at once than there are connections: each ends in time all the same.
        refused = await asyncio.gather(
            *(store.get("ticks", "a") for _ in range(50)), return_exceptions=True
        )
        assert all(isinstance(one, StoreUnreachable) for one in refused)
        assert time.monotonic() - begun < 60
        with pytest.raises(StoreUnreachable):
            await open_live_store(server.url, timeout_s=0.5)

    await until(store, 3)
    await store.close()


async def test_a_value_ages_while_it_waits_for_a_paused_server(server: RedisServer) -> None:
    store = await open_live_store(server.url, timeout_s=0.5)
    await until(store, 1)
    with server.paused():
        for key, ttl_ms in (("a", 300_000), ("b", 400)):
            with pytest.raises(StoreUnreachable):
                await store.put("ticks", [value(key, number=2, ttl_ms=ttl_ms)])

    async with asyncio.timeout(PATIENCE_S):
        while (found := await store.get("ticks", "a")) is None or found.number != 2:
            pass
    assert found.age_ms >= 900, "both calls waited until they were given up"
    assert await store.get("ticks", "b") is None, "it expired before it arrived"
    await store.close()


async def test_a_restarted_server_is_used_again_and_subscribers_get_all_of_it(
    server: RedisServer,
) -> None:
    facts = list[Fact]()
    store = await open_live_store(server.url, timeout_s=5, listener=facts.append)
    await store.put("ticks", [value(number=1)])
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        assert [each.number for each in await changes.next_batch()] == [1]
        server.stop()
        with pytest.raises(StoreUnreachable):
            await store.put("ticks", [value(number=2)])
        server.start()
        # While nobody is subscribed yet, by another process.
        other = await open_live_store(server.url, timeout_s=30)
        await other.put("ticks", [value(number=3)])

        assert [each.number for each in await changes.next_batch()] == [3]
        await other.put("ticks", [value(number=4)])
        assert [each.number for each in await changes.next_batch()] == [4]
    assert [type(fact) for fact in facts] == [LiveChangesLost]
    await store.close()
    await other.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_that_never_was_there_is_said_in_time(server: RedisServer) -> None:
    server.stop()
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match="Check that it is running"):
            await open_live_store(server.url.replace("://", "://me:secret@"), timeout_s=2)
    server.start()


async def test_other_programs_find_plain_documents(redis_url: str) -> None:
    store = await open_live_store(f"{redis_url}?prefix=layout", timeout_s=30)
    async with Redis.from_url(redis_url) as other, other.pubsub() as messages:
        await messages.subscribe("layout:ticks")
        while (await messages.get_message(timeout=PATIENCE_S) or {})["type"] != "subscribe":
            pass
        await store.put("ticks", [value("sim:A/B", 7), value("sim:B/C", 8)])

        text = await other.get("layout:ticks:sim:A/B")
        assert isinstance(text, bytes)
        document = msgspec.json.decode(text)
        assert list(document) == ["line", "number", "at_ms", "ttl_ms", "key", "value"]
        assert abs(document["at_ms"] / 1000 - (await other.time())[0]) < PATIENCE_S
        assert document | {"at_ms": 0} == {
            "line": "u", "number": 7, "at_ms": 0, "ttl_ms": 300_000, "key": "sim:A/B", "value": "x",
        }  # fmt: skip
        assert 0 < await other.pttl("layout:ticks:sim:A/B") <= 300_000
        assert await other.smembers("layout:ticks") == {b"sim:A/B", b"sim:B/C"}
        message = await messages.get_message(timeout=PATIENCE_S)
        published = msgspec.json.decode(message["data"])
        assert [each["key"] for each in published] == ["sim:A/B", "sim:B/C"]
        assert published[0] == document
    await store.close()


async def test_what_others_wrote_under_our_keys_is_replaced_or_refused(redis_url: str) -> None:
    store = await open_live_store(f"{redis_url}?prefix=odd", timeout_s=30)
    async with Redis.from_url(redis_url) as other:
        await other.set("odd:ticks:a", "buy milk")
        await other.sadd("odd:ticks", "a", b"\xff", "gone")
        assert await store.get("ticks", "a") is None
        assert await store.find("ticks") == []
        assert await other.smembers("odd:ticks") == {b"a", b"\xff"}, "what expired is forgotten"
        assert await store.put("ticks", [value()]) == 1
        await other.lpush("odd:ticks:b", "a list")
        with pytest.raises(StorageError, match="WRONGTYPE"):
            await store.put("ticks", [value("b")])
        async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
            await changes.next_batch()
            await other.publish("odd:ticks", "no JSON")
            await store.put("ticks", [value(number=9)])
            assert [each.number for each in await changes.next_batch()] == [9]
    await store.close()


async def test_a_silent_line_counts_as_lost(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.cache.redis._PING_S", 0.1)
    monkeypatch.setattr("penstock.storage.cache.redis._SILENT_NS", 300_000_000)
    facts = list[Fact]()
    store = await open_live_store(server.url, timeout_s=0.5, listener=facts.append)
    await until(store, 1)
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        await changes.next_batch()
        async with Redis.from_url(server.url) as other:
            enough = await pings(other) + 10
            while await pings(other) < enough:  # noqa: ASYNC110 (the server tells nobody)
                await asyncio.sleep(0.05)
        assert not facts, "answers to pings keep it alive"
        with server.paused():
            while not facts:  # noqa: ASYNC110 (its watcher tells nobody else)
                await asyncio.sleep(0.01)
        await until(store, 2)
        while 2 not in [each.number for each in await changes.next_batch()]:
            pass
    await store.close()


async def test_a_server_that_accepts_and_never_answers_counts_as_lost(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.cache.redis._PING_S", 0.1)
    facts, opened, answers = list[Fact](), list[asyncio.StreamWriter](), True

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        if answers:
            there, here = await asyncio.open_connection("127.0.0.1", server.port)
            opened.append(here)
            await asyncio.gather(_move(reader, here), _move(there, writer))

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        url = f"redis://127.0.0.1:{port}"
        store = await open_live_store(url, timeout_s=0.5, listener=facts.append)
        await until(store, 1)
        async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
            await changes.next_batch()
            answers = False
            for each in opened:
                each.close()
            while not facts:  # noqa: ASYNC110 (its watcher tells nobody else)
                await asyncio.sleep(0.01)
        await store.close()
        for each in opened:
            each.close()


async def _move(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
    target.close()


@asynccontextmanager
async def encrypted(server: RedisServer, folder: Path) -> AsyncIterator[int]:
    """A port that speaks TLS for a server that does not."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(folder))

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(_move(reader, here), _move(there, writer))

    listener = await asyncio.start_server(carry, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


async def test_a_connection_is_encrypted_and_the_certificate_checked(
    server: RedisServer, tmp_path: Path
) -> None:
    async with encrypted(server, tmp_path) as port:
        known = f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path / 'cert.pem'}"
        store = await open_live_store(known, timeout_s=30)
        assert await store.put("ticks", [value()]) == 1
        await store.close()

        with pytest.raises(StoreUnreachable, match="certificate verify failed"):
            await open_live_store(f"rediss://127.0.0.1:{port}", timeout_s=30)
        with pytest.raises(StoreUnreachable):
            await open_live_store(f"rediss://127.0.0.1:{server.port}", timeout_s=1)


async def test_a_cluster_of_one_takes_batches_and_delivers_changes() -> None:
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with RedisServer(*options) as server:
        admin: Any = Redis(port=server.port)
        async with admin:
            await admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            async with asyncio.timeout(PATIENCE_S):
                while b"cluster_state:ok" not in await admin.execute_command(  # noqa: ASYNC110
                    "CLUSTER", "INFO"
                ):
                    await asyncio.sleep(0.05)
        store = await open_live_store(f"redis+cluster://127.0.0.1:{server.port}", timeout_s=30)
        assert await store.put("ticks", [value(f"k{number}") for number in range(600)]) == 600
        assert len(await store.find("ticks")) == 600
        async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
            assert len(await changes.next_batch()) == 600
            await store.put("ticks", [value("k1", 2)])
            assert [each.number for each in await changes.next_batch()] == [2]
        await store.close()


async def test_sentinels_are_asked_for_the_server(server: RedisServer, tmp_path: Path) -> None:
    file = tmp_path / "sentinel.conf"
    file.write_text(f"sentinel monitor main 127.0.0.1 {server.port} 1\n")
    with RedisServer(str(file), "--sentinel") as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}"
        store = await open_live_store(f"{url}/main/0", timeout_s=30)
        assert await store.put("ticks", [value()]) == 1
        assert await store.get("ticks", "a") is not None
        await store.close()
        with pytest.raises(StoreUnreachable):
            await open_live_store(f"{url}/unknown", timeout_s=30)


def test_urls_say_what_they_mean(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    plain = parse("redis://host")
    assert (plain.hosts, plain.database, plain.tls) == ((("host", 6379),), 0, False)
    assert (plain.username, plain.password, plain.prefix) == (None, None, "penstock")
    full = parse(f"rediss://me:p%40ss@[::1]:7000/3?prefix=x&ssl_ca_certs={file}")
    assert (full.username, full.password) == ("me", "p@ss")
    assert (full.hosts, full.database, full.tls, full.prefix) == ((("::1", 7000),), 3, True, "x")
    assert full.tls_options == {"ssl_ca_certs": str(file)}
    assert full.where == "rediss://[::1]:7000/3"
    cluster = parse("redis+cluster://:x@one,two:7001")
    assert (cluster.kind, cluster.hosts) == ("cluster", (("one", 6379), ("two", 7001)))
    assert cluster.prefix == "{penstock}", "all keys on one node"
    sentinel = parse("rediss+sentinel://a,b:5/main/2")
    assert (sentinel.service, sentinel.database, sentinel.hosts) == (
        "main", 2, (("a", 26379), ("b", 5)),
    )  # fmt: skip
    assert sentinel.where == "rediss+sentinel://a:26379,b:5/main/2"
    assert parse("rediss://h?ssl_check_hostname=false&ssl_cert_reqs=none").tls_options == {
        "ssl_check_hostname": False, "ssl_cert_reqs": "none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis:host", "is no URL"),
        ("redis://", "names no host"),
        ("redis://:pass/word-secret@host", "write / @ : ? # as %2F"),
        ("redis://me:secret@host:port", "port that is none"),
        ("redis://me:secret@host:99999", "port that is none"),
        ("redis://me:secret@[host", "is no URL"),
        ("redis://me:se#cret@host", "is no URL"),
        ("redis://host/zero", "database that is no number"),
        ("redis://host?passwrd=secret", "has an option it cannot have"),
        ("redis://host?ssl_ca_cert=secret", "Did you mean ssl_ca_certs"),
        ("redis://host?ssl_cert_reqs=none", "needs rediss://"),
        ("rediss://host?ssl_cert_reqs=maybe", "required, optional, none"),
        ("rediss://host?ssl_ca_certs=/nowhere.pem", "does not exist: ssl_ca_certs=/nowhere.pem"),
        ("redis://host?prefix=", "prefix that is empty"),
        ("redis://host?prefix={x}", "prefix that is empty"),
        ("redis+cluster://host/1", "only database 0"),
        ("redis+sentinel://host", "names no service"),
        ("redis+magic://host", "after it"),
    ],
)
async def test_a_wrong_url_is_refused_before_anything_is_opened(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        await open_live_store(url)
    assert says in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_a_closed_store_leaves_no_connection(server: RedisServer) -> None:
    async with Redis(port=server.port) as admin:
        for _ in range(5):
            store = await open_live_store(server.url, timeout_s=30)
            async with store.changes("ticks"):
                await asyncio.gather(*(store.put("ticks", [value()]) for _ in range(20)))
            assert await admin.info("clients")
            await store.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await admin.info("clients"))["connected_clients"] > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == {asyncio.current_task()}
