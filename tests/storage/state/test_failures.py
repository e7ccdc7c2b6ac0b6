"""A store that is away, slow, half made or too new: a clear error in time, and nothing lost."""

import asyncio
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from tests.forked import python
from tests.waiting import PATIENCE_S

from penstock.errors import NewerStore, StorageError, StorageFull, StoreUnreachable
from penstock.storage.sqlite_file import transaction
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.budget import LeaseRequest, WindowDemand
from penstock.storage.state.schema import CONNECTORS, JOBS, MARKETS, SCHEMA, Table, Unique
from penstock.storage.state.sqlite import SqliteBackend

HOUR = 3_600_000
shared = pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)
remote = pytest.mark.parametrize("backend", ["postgresql", "mongodb"], indirect=True)

TABLES = tuple(
    Table(f"things_{n}", {"name": "text"}, unique=(Unique(("name",)),), indexes=(("name",),))
    for n in range(3)
)

# A process that brings a store to a new schema and dies like a killed one on the way: before one of
# its tables, or when all are made and nothing says so yet.
DIES = """
import asyncio, os, sys
from penstock.storage.state import open_store
from penstock.storage.state.schema import Table, Unique

class Step(tuple):
    looked = False

    def __iter__(self):
        if not self.looked:  # whether there are documents to rewrite first
            self.looked = True
            yield from tuple.__iter__(self)
            return
        for number, table in enumerate(tuple.__iter__(self)):
            if number == int(sys.argv[2]):
                os._exit(9)
            yield table
        os._exit(9)

tables = [
    Table(f"things_{n}", {"name": "text"}, unique=(Unique(("name",)),), indexes=(("name",),))
    for n in range(3)
]
asyncio.run(open_store(sys.argv[1], schema=(Step(tables),)))
"""


@shared
@pytest.mark.parametrize("step", [1, 3])
async def test_a_migration_killed_half_way_is_finished_by_the_next(url: str, step: int) -> None:
    assert await asyncio.to_thread(python("-c", DIES, url, str(step)).wait) == 9

    store = await open_store(url, schema=(TABLES,))

    for table in TABLES:
        assert (await store.insert_if_absent(table, {"id": "1", "name": "same"})).created
        assert not (await store.insert_if_absent(table, {"id": "2", "name": "same"})).created
    await store.close()


@shared
async def test_a_new_version_adds_to_what_is_there(url: str) -> None:
    old = await open_store(url)
    await old.insert_if_absent(CONNECTORS, {"id": "1", "exchange_id": "sim"})
    await old.close()

    new = await open_store(url, schema=(*SCHEMA, TABLES))
    assert await new.get(CONNECTORS, "1") is not None
    assert (await new.insert_if_absent(TABLES[0], {"id": "1", "name": "x"})).created
    await new.close()

    with pytest.raises(NewerStore, match="Upgrade penstock") as refusal:
        await open_store(url)
    assert (refusal.value.found, refusal.value.known) == (len(SCHEMA) + 1, len(SCHEMA))
    assert "postgres@" not in str(refusal.value)


@shared
async def test_a_store_that_is_brought_further_meanwhile_is_noticed(url: str) -> None:
    store = await open_store(url)
    await store.check()

    newer = await open_store(url, schema=(*SCHEMA, TABLES))
    await newer.check()
    with pytest.raises(NewerStore, match="Upgrade penstock"):
        await store.check()

    for each in (store, newer):
        await each.close()


@shared
async def test_many_may_prepare_an_empty_store_at_once(url: str) -> None:
    stores = await asyncio.gather(*(open_store(url) for _ in range(6)))

    made = await asyncio.gather(
        *(store.insert_if_absent(JOBS, {"id": "1", "target": {}}) for store in stores)
    )

    assert sum(one.created for one in made) == 1
    for store in stores:
        await store.close()


@pytest.mark.parametrize("scheme", ["postgresql", "mongodb"])
async def test_nobody_at_the_address_is_said_in_time(scheme: str) -> None:
    with socket.socket() as closed, socket.socket() as silent:
        closed.bind(("127.0.0.1", 0))
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for place in (closed, silent):
            url = f"{scheme}://me:secret@127.0.0.1:{place.getsockname()[1]}/x"
            begun = time.monotonic()
            with pytest.raises(StoreUnreachable, match="Check that it is running") as failure:
                await open_store(url, timeout_s=0.5)
            assert time.monotonic() - begun < 30
            assert "secret" not in str(failure.value)


T = TypeVar("T")


class Line:
    """A connection that can be cut off without either side being told."""

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self.open = asyncio.Event()
        self.open.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        folder = parse_qs(self._server.query).get("host", [""])[0]
        if folder:
            there = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        else:
            host, port = self._server.hostname, self._server.port
            there = await asyncio.open_connection(host, port)
        await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.open.wait()
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def through_a_line(server: str, url: str) -> AsyncIterator[tuple[Line, str]]:
    line = Line(server)
    listener = await asyncio.start_server(line.carry, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    parts = urlsplit(url)
    query = "&".join(part for part in parts.query.split("&") if not part.startswith("host="))
    user = f"{parts.username}@" if parts.username else ""
    yield line, f"{parts.scheme}://{user}127.0.0.1:{port}{parts.path}?{query}".rstrip("?")
    line.open.set()
    listener.close()


async def eventually(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer to a question that a busy machine may not answer in time at first."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnreachable):
                return await ask()


@remote
async def test_a_server_that_falls_silent_is_given_up_and_found_again(
    url: str, backend: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(f"{backend}_url")
    async with through_a_line(server, url) as (line, address):
        store = await eventually(lambda: open_store(address, timeout_s=1.0))
        ask = LeaseRequest((WindowDemand("weight", 100, HOUR),))
        assert (await eventually(lambda: store.lease("sim", ask))).ok

        line.open.clear()
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable):
            await store.lease("sim", ask)
        with pytest.raises(StoreUnreachable):
            await store.get(JOBS, "1")
        assert time.monotonic() - begun < 40

        line.open.set()
        assert (await eventually(lambda: store.lease("sim", ask))).ok
        await store.close()


async def test_a_locked_file_is_said_in_time(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}", timeout_s=1.0)
    store._timeout_s = PATIENCE_S
    await store.lease("sim", LeaseRequest())
    store._timeout_s = 0.3
    holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnreachable):
        await store.lease("sim", LeaseRequest())
    with pytest.raises(StoreUnreachable):
        await store.insert_if_absent(JOBS, {"id": "1", "target": {}})

    holder.execute("ROLLBACK")
    holder.close()
    store._timeout_s = PATIENCE_S
    assert (await store.lease("sim", LeaseRequest())).ok
    await store.close()


async def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n" * 200)
    (tmp_path / "file").touch()

    for name in ("notes.txt", "file/state.db"):
        with pytest.raises(StorageError, match=name):
            await open_store(f"sqlite:{tmp_path / name}")
    assert (tmp_path / "notes.txt").read_text().startswith("buy milk")


class Machine:
    """A machine's clocks: one that only runs, and one that people set."""

    def __init__(self) -> None:
        self.boot, self.up_ms, self.wall_ms = "first", 1_000, 1_700_000_000_000

    def boot_id(self) -> str:
        return self.boot

    def since_boot_ns(self) -> int:
        return self.up_ms * 1_000_000

    def wall_ns(self) -> int:
        return self.wall_ms * 1_000_000

    async def open(self, path: Path) -> StateStore:
        backend = SqliteBackend(path, self, 5)
        await backend.prepare(SCHEMA)
        return StateStore(backend, 5)


@pytest.mark.parametrize("step_ms", [HOUR, -HOUR])
async def test_a_stepped_wall_clock_moves_nothing_on_one_machine(
    tmp_path: Path, step_ms: int
) -> None:
    machine = Machine()
    one = await machine.open(tmp_path / "state.db")
    machine.up_ms += 5_000
    machine.wall_ms += 5_000 + step_ms

    other = await machine.open(tmp_path / "state.db")

    assert await one.now_ms() == await other.now_ms() == 1_700_000_005_000
    await one.close()
    await other.close()


async def test_a_clock_that_was_wrong_at_boot_is_corrected_once_nobody_uses_the_store(
    tmp_path: Path,
) -> None:
    machine, ask = Machine(), LeaseRequest((WindowDemand("weight", 100, HOUR),))
    machine.wall_ms = 5_000
    early = await machine.open(tmp_path / "state.db")
    await early.insert_if_absent(CONNECTORS, {"id": "a"})
    assert (await early.lease("sim", ask)).ok
    machine.up_ms += 60_000
    machine.wall_ms = 1_700_000_000_000

    beside = await machine.open(tmp_path / "state.db")
    assert await early.now_ms() == await beside.now_ms() == 65_000
    await early.close()
    await beside.close()
    late = await machine.open(tmp_path / "state.db")
    later = await machine.open(tmp_path / "state.db")

    assert await late.now_ms() == await later.now_ms() == machine.wall_ms
    assert await late.get(CONNECTORS, "a") is not None
    assert not (await late.lease("sim", ask)).ok, "who knows what was sent in this window"
    await late.close()
    await later.close()


@pytest.mark.parametrize("wall_ms", [1_700_000_000_000 + HOUR, 1_600_000_000_000])
async def test_a_store_follows_neither_small_steps_nor_steps_back(
    tmp_path: Path, wall_ms: int
) -> None:
    machine = Machine()
    store = await machine.open(tmp_path / "state.db")
    await store.close()
    machine.wall_ms = wall_ms

    store = await machine.open(tmp_path / "state.db")

    assert await store.now_ms() == 1_700_000_000_000
    await store.close()


async def test_after_a_boot_the_present_windows_count_as_used(tmp_path: Path) -> None:
    machine, ask = Machine(), LeaseRequest((WindowDemand("weight", 100, HOUR),))
    store = await machine.open(tmp_path / "state.db")
    assert (await store.lease("sim", ask)).ok
    await store.close()
    machine.boot, machine.up_ms = "second", 0
    machine.wall_ms += 60_000

    store = await machine.open(tmp_path / "state.db")

    assert await store.now_ms() == machine.wall_ms
    assert not (await store.lease("sim", ask)).ok
    assert (await store.lease("another", ask)).ok, "nothing was taken from this one before"
    await store.close()


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_after_a_crash_of_the_server_the_present_windows_count_as_used(
    store: StateStore, url: str
) -> None:
    ask, stop_ms = (
        LeaseRequest((WindowDemand("weight", 100, HOUR),)),
        await store.now_ms() + 2 * HOUR,
    )
    assert (await store.lease("sim", ask)).ok
    assert not (await store.lease("stopped", LeaseRequest(blocked_until_ms=stop_ms))).ok
    connection = await asyncpg.connect(url)
    kinds = await connection.fetch(
        "SELECT relpersistence FROM pg_class WHERE oid IN ('penstock_budgets'::regclass,"
        " 'penstock_known_budgets'::regclass) ORDER BY relname"
    )
    # What PostgreSQL does to an unlogged table after a crash.
    await connection.execute("TRUNCATE penstock_budgets")
    await connection.close()

    assert [kind for (kind,) in kinds] == [b"u", b"p"]
    assert not (await store.lease("sim", ask)).ok
    assert not (await store.lease("sim", LeaseRequest((WindowDemand("raw", 100, HOUR),)))).ok
    assert (await store.lease("stopped", ask)).at_ms >= stop_ms
    assert (await store.lease("another", ask)).ok


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [("postgresql://x/y", "asyncpg", "postgres"), ("mongodb://x/y", "pymongo", "mongo")],
)
def test_a_missing_library_is_named_with_its_extra(url: str, library: str, extra: str) -> None:
    code = (
        f"import asyncio, sys; sys.modules[{library!r}] = None\n"
        f"from penstock.storage.state import open_store\nasyncio.run(open_store({url!r}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "MissingExtra" in done.stderr.splitlines()[-1]
    assert f"pip install 'penstock[{extra}]'" in done.stderr


async def test_a_full_disk_is_named_as_such_and_passes(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    backend = cast("SqliteBackend", store._backend)
    database = backend._documents
    [(pages,)] = database.execute("PRAGMA page_count")
    database.execute(f"PRAGMA max_page_count = {pages}")
    document = {"id": "x", "exchange_id": "x", "refreshed_at": 0, "limits": []}
    large = {**document, "symbols": [["n", "s", "", []]] * 5000}

    await store.insert_if_absent(MARKETS, {**document, "symbols": []})
    with pytest.raises(StorageFull, match="full"):
        await store.update(MARKETS, "x", lambda _: large)
    with pytest.raises(sqlite3.OperationalError, match="full"), transaction(database):
        database.execute("CREATE TABLE more AS SELECT zeroblob(1000000)")
    assert not database.in_transaction
    database.execute("PRAGMA max_page_count = 1000000")
    await store.update(MARKETS, "x", lambda _: large)
    await store.close()
