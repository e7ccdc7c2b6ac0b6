"""Live values in Redis or Valkey, for several machines; the layout is in docs/live.md.

A value is a JSON document under a key of its own, which Redis expires. A batch is one script call,
or a pipeline of them, which also publishes what changed. Ages are measured by Redis's clock.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from msgspec import Raw, Struct

from penstock.clock import Clock
from penstock.errors import MissingExtra, StoreUnreachable
from penstock.storage.cache.redis_scripts import FORGET, PUT, READ, REMOVE
from penstock.storage.cache.redis_urls import RedisAddress, parse
from penstock.storage.cache.values import LiveValue
from penstock.storage.cache.watching import Deliver

try:
    from hiredis import pack_command
    from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster, SSLConnection
    from redis.asyncio.cluster import ClusterNode
    from redis.asyncio.connection import AbstractConnection, Connection
    from redis.asyncio.retry import Retry
    from redis.asyncio.sentinel import Sentinel
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError

    from penstock.storage.cache.redis_failures import as_storage_error
except ImportError as error:
    raise MissingExtra("redis", "redis") from error

_CONNECTIONS = 8
"""Of one process, one for each space that is watched; a call waits for a free one, in time."""
_IDLE_NS = 1_000_000_000
"""A connection that was not used for this long may have been closed."""
_AT_ONCE = 256
"""Values in one script call, during which Redis serves nobody else."""
_PING_S, _SILENT_NS = 5.0, 12_000_000_000
"""While nothing changes the connection is tested; after so much silence it counts as lost."""
_MEASURE_NS = 60_000_000_000
"""How often the difference between Redis's clock and this process's is measured."""


class _Packing(AbstractConnection):
    """Encodes commands in C: those of a batch have a key for each of its values."""

    def pack_command(self, *args: Any) -> list[bytes]:
        return [pack_command(args)]


class _PlainConnection(_Packing, Connection):
    pass


class _TlsConnection(_Packing, SSLConnection):
    pass


class _Stored(Struct, gc=False):
    """The document under a key, and an element of what is published."""

    line: str
    number: int
    at_ms: int
    """When the value was received, by Redis's clock."""
    ttl_ms: int
    key: str
    value: Raw


_decode = msgspec.json.Decoder(_Stored).decode
_decode_many = msgspec.json.Decoder(list[_Stored]).decode
_encode = msgspec.json.encode


def open_url(url: str, clock: Clock, timeout_s: float) -> "RedisBackend":
    """``redis://…``, ``rediss://…``: see ``redis_urls``."""
    address = parse(url)
    client, *others = _clients(address, timeout_s)
    kept = _KeptConnection(client, clock) if address.kind == "server" else None
    return RedisBackend(client, others, address, clock, timeout_s, kept)


def _clients(address: RedisAddress, timeout_s: float) -> list[Any]:
    """The client of the server or the cluster, and those of the Sentinels."""
    options: dict[str, Any] = {
        "username": address.username, "password": address.password,
        "socket_timeout": timeout_s, "socket_connect_timeout": timeout_s,
        # Who calls decides about a retry; a batch that waits may be outdated.
        "retry": Retry(NoBackoff(), 0), "protocol": 2,
    }  # fmt: skip
    if address.kind != "server":
        options["ssl"] = address.tls
    options |= address.tls_options
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return [RedisCluster(startup_nodes=nodes, max_connections=_CONNECTIONS, **options)]
    options["db"] = address.database
    if address.kind == "sentinel":
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            list(address.hosts), sentinel_kwargs=_to_sentinels(options), **options
        )
        return [sentinels.master_for(address.service), *sentinels.sentinels]
    [(host, port)] = address.hosts[:1]
    options["socket_timeout"] = None  # `_in_time` limits whole calls, which is cheaper
    pool = BlockingConnectionPool(
        _CONNECTIONS, timeout_s, _TlsConnection if address.tls else _PlainConnection,
        host=host, port=port, **options,
    )  # fmt: skip
    return [Redis.from_pool(pool)]


def _to_sentinels(options: dict[str, Any]) -> dict[str, Any]:
    """Sentinels are reached in the same way, but have neither databases nor the same users."""
    others = ("db", "username", "password")
    return {name: value for name, value in options.items() if name not in others}


class _KeptConnection:
    """A connection that is kept for batches: to take one for each batch costs a third more."""

    def __init__(self, client: Any, clock: Clock) -> None:
        self._pool, self._clock = client.connection_pool, clock
        self._one_at_a_time = asyncio.Lock()
        self._connection: AbstractConnection | None = None
        self._used_ns = 0

    async def call(self, *command: str | int | bytes) -> Any:
        async with self._one_at_a_time:
            connection, now_ns = self._connection, self._clock.monotonic_ns()
            if connection is None or now_ns - self._used_ns > _IDLE_NS:
                if connection is not None:
                    self._connection = None
                    await self._pool.release(connection)
                # Tested by the pool, and opened again if Redis has closed it.
                connection = self._connection = await self._pool.get_connection()
            self._used_ns = now_ns
            # After a failure it is closed, and the next command opens it.
            await connection.send_command(*command)
            return await connection.read_response()


class RedisBackend:
    """One client, whose connections are opened when they are needed."""

    def __init__(
        self,
        client: Any,
        others: Sequence[Any],
        address: RedisAddress,
        clock: Clock,
        timeout_s: float,
        kept: _KeptConnection | None = None,
    ) -> None:
        # Any: a client of a server or of a cluster, which have no common type.
        self._client, self._others, self._clock = client, others, clock
        self._prefix, self._where = address.prefix, address.where
        self._timeout_s, self._kept = timeout_s, kept
        self._has_pipelines = address.kind != "cluster"
        self._ahead_ms: int | None = None
        """Redis's clock minus this process's, at least."""
        self._measured_ns = 0

    @property
    def where(self) -> str:
        return self._where

    async def open(self) -> None:
        async with self._in_time():
            await self._client.ping()

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        calls = [self._put_call(space, part) for part in _parts(values)]
        async with self._in_time():
            if len(calls) == 1 and self._kept is not None:
                return self._counted([await self._kept.call("EVAL", *calls[0])])
            if len(calls) == 1 or not self._has_pipelines:
                return self._counted([await self._client.eval(*call) for call in calls])
            pipeline = self._client.pipeline(transaction=False)
            for call in calls:
                pipeline.eval(*call)
            # Raised by the client, an error would quote the whole batch.
            answers = await pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return self._counted(answers)

    def _counted(self, answers: Sequence[tuple[int, int]]) -> int:
        """The sum of the answers to calls; they also have Redis's time."""
        now_ns = self._clock.monotonic_ns()
        ahead_ms = answers[-1][1] - now_ns // 1_000_000
        is_due = now_ns - self._measured_ns > _MEASURE_NS
        if self._ahead_ms is None or ahead_ms > self._ahead_ms or is_due:
            self._ahead_ms, self._measured_ns = ahead_ms, now_ns
        return sum([written for written, _ in answers])

    def _sent_ms(self) -> int:
        """The present time by Redis's clock, or slightly less; 0 if it is not known."""
        now_ms = self._clock.monotonic_ns() // 1_000_000
        return 0 if self._ahead_ms is None else now_ms + self._ahead_ms

    def _put_call(self, space: str, values: Sequence[LiveValue]) -> list[str | int | bytes]:
        keys = self._keys(space, [value.key for value in values])
        return [PUT, len(keys), *keys, b"".join(map(_argument, values)), self._sent_ms()]

    def _keys(self, space: str, keys: Sequence[str]) -> list[str]:
        """The keys of values in Redis, and last that of their space."""
        whole = f"{self._prefix}:{space}"
        return [*(f"{whole}:{key}" for key in keys), whole]

    async def get(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        found = list[LiveValue | None]()
        async with self._in_time():
            for part in _parts(keys):
                names = self._keys(space, part)
                now_ms, documents = await self._client.eval(READ, len(names), *names)
                found += (_read(document, now_ms) for document in documents)
        return found

    async def find(self, space: str) -> list[LiveValue]:
        async with self._in_time():
            members = await self._client.smembers(f"{self._prefix}:{space}")
            keys = [member.decode(errors="replace") for member in members]
            found = await self.get(space, keys)
            gone = [key for key, value in zip(keys, found, strict=True) if value is None]
            await self._each(FORGET, space, gone)
        return [value for value in found if value is not None]

    async def remove(self, space: str, keys: Sequence[str]) -> None:
        async with self._in_time():
            await self._each(REMOVE, space, keys)

    async def _each(self, script: str, space: str, keys: Sequence[str]) -> None:
        for part in _parts(keys):
            names = self._keys(space, part)
            await self._client.eval(script, len(names), *names)

    async def now_ms(self) -> int:
        async with self._in_time():
            # Of the server that has the keys: in a cluster they differ.
            now_ms, _ = await self._client.eval(READ, 2, *self._keys("", ["-"]))
            return int(now_ms)

    async def watch(self, space: str, deliver: Deliver) -> None:
        with self._failures_named():
            await self._watch(space, deliver)

    async def _watch(self, space: str, deliver: Deliver) -> None:
        async with self._client.pubsub() as messages:
            async with self._in_time():
                await messages.subscribe(f"{self._prefix}:{space}")
            ahead_ms, measured_ns = 0, 0
            heard_ns = self._clock.monotonic_ns()
            while True:
                async with self._in_time(_PING_S):  # it may connect again
                    message = await messages.get_message(timeout=_PING_S)
                now_ns = self._clock.monotonic_ns()
                if message is None:
                    if now_ns - heard_ns > _SILENT_NS:
                        raise StoreUnreachable(self.where, "gave no answer in time")
                    async with self._in_time():
                        await messages.ping()
                    continue
                heard_ns = now_ns
                if message["type"] == "subscribe" or now_ns - measured_ns > _MEASURE_NS:
                    # After this a message that waited in a buffer is as old as it is.
                    ahead_ms, measured_ns = await self.now_ms() - now_ns // 1_000_000, now_ns
                if message["type"] == "subscribe":
                    # From now on nothing is missed, so the present values are complete.
                    deliver(await self.find(space))
                elif message["type"] == "message":
                    deliver(_published(message["data"], now_ns // 1_000_000 + ahead_ms))

    async def close(self) -> None:
        for client in (self._client, *self._others):
            await client.aclose()

    @asynccontextmanager
    async def _in_time(self, wait_s: float = 0.0) -> AsyncIterator[None]:
        """Limit the time of a call, besides that for which it waits, and name its failures."""
        with self._failures_named():
            try:
                async with asyncio.timeout(self._timeout_s + wait_s):
                    yield
            except TimeoutError as error:
                raise StoreUnreachable(self.where, "gave no answer in time") from error

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except RedisError as error:
            raise as_storage_error(self.where, error) from error


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def _argument(value: LiveValue) -> bytes:
    rest = b',"key":%b,"value":%b}' % (_encode(value.key), value.value)
    return b"%b %d %d %d %d %b" % (
        value.line.encode(), value.number, value.age_ms, value.ttl_ms, len(rest), rest
    )  # fmt: skip


def _read(document: bytes | None, now_ms: int) -> LiveValue | None:
    if document is None:
        return None
    try:
        value = _value(_decode(document), now_ms)
    except msgspec.DecodeError:
        return None  # somebody else's: it is replaced by the next value
    return None if value.expired else value


def _published(message: bytes, now_ms: int) -> list[LiveValue]:
    try:
        values = [_value(stored, now_ms) for stored in _decode_many(message)]
    except msgspec.DecodeError:
        return []  # somebody else's
    return [value for value in values if not value.expired]


def _value(stored: _Stored, now_ms: int) -> LiveValue:
    return LiveValue(
        stored.key, bytes(stored.value), stored.ttl_ms, max(now_ms - stored.at_ms, 0),
        stored.line, stored.number,
    )  # fmt: skip
