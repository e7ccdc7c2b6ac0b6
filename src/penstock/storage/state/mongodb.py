"""State in MongoDB, for several machines where it is in use already.

Only single-document operations with plain operators are used, which every server with MongoDB's
protocol has. The values of a unique rule are stored in a field of its own with a plain unique
sparse index, set only while the rule applies to the document. A lease reads the budget, applies the
rule and writes it back if its version is still the same.

A plain update in MongoDB has no access to the server's time, so each process keeps the offset of
its clock to the server's. It is measured at mid round trip, and again every minute.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from random import random
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from penstock.clock import Clock
from penstock.errors import ConfigError, MissingExtra, NewerStore, StorageError, StoreUnreachable
from penstock.resilience.backoff import Backoff
from penstock.storage.state.budget import Budget, LeaseReply, LeaseRequest, lease, unblocked
from penstock.storage.state.documents import (
    Add,
    Claim,
    Condition,
    Counts,
    Document,
    Patch,
    Query,
    Write,
    field_of,
    resolved,
)
from penstock.storage.state.schema import Schema, Table, index_name
from penstock.storage.timeouts import in_time

try:
    from pymongo import AsyncMongoClient, ReturnDocument
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.errors import (
        ConfigurationError,
        ConnectionFailure,
        DuplicateKeyError,
        InvalidURI,
        OperationFailure,
        PyMongoError,
    )
except ImportError as error:
    raise MissingExtra("pymongo", "mongo") from error

_MEASURE_EVERY_NS = 60_000_000_000
_ROUND_TRIPS = 3
# After a conflict on a budget a process retries after a short random delay.
_ASIDE = Backoff(first_s=0.001, longest_s=0.05, jitter=1.0)

_OPERATORS = {"<=": "$lte", ">": "$gt", "in": "$in", "not in": "$nin"}
_LEAST = {"text": "", "int": -(2**63)}

_encode = msgspec.json.encode
_decode_budget = msgspec.json.Decoder(Budget).decode


def open_url(url: str, clock: Clock, timeout_s: float) -> "MongodbBackend":
    """``mongodb://HOST/DATABASE``, as in MongoDB's own tools."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    timeout_ms = round(timeout_s * 1000)
    try:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            url, serverSelectionTimeoutMS=timeout_ms, timeoutMS=timeout_ms
        )
    except (ConfigurationError, InvalidURI, ValueError) as error:
        # The cause is not shown: it may contain a part of the password.
        problem = "is no URL. In names and passwords write / @ : ? # as %2F %40 %3A %3F %23."
        raise ConfigError(f"{parts.scheme}:", problem=problem, origin="state URL") from error
    return MongodbBackend(client, f"{parts.scheme}://{place}{parts.path}", clock, timeout_s)


class MongodbBackend:
    """Collections of the database that the URL names, ``penstock`` if it names none."""

    def __init__(
        self, client: AsyncMongoClient[Document], where: str, clock: Clock, timeout_s: float
    ) -> None:
        self._client, self._where, self._clock = client, where, clock
        self._timeout_s = timeout_s
        self._database = client.get_default_database("penstock")
        self._ahead_ms, self._measured_ns = 0, -_MEASURE_EVERY_NS

    @property
    def where(self) -> str:
        return self._where

    async def prepare(self, schema: Schema, known: int | None = None) -> int:
        async with self._failures_named():
            versions, found = self._database["version"], await self.version()
            if found > (known or len(schema)):
                raise NewerStore(self.where, found, known or len(schema))
            for number, step in enumerate(schema[found:], found + 1):
                for table in step:
                    await self._create(table)
                # Written once the step is complete; an incomplete step is repeated from its start.
                await versions.update_one(
                    {"_id": "schema"}, {"$max": {"version": number}}, upsert=True
                )
        await self.now_ms()
        return found

    async def version(self) -> int:
        async with self._failures_named():
            row = await self._database["version"].find_one({"_id": "schema"})
        return row["version"] if row else 0

    async def _create(self, table: Table) -> None:
        documents = self._database[table.name]
        for name in table.dropped:
            with suppress(OperationFailure):  # it is not there
                await documents.drop_index(name)
        for fields in table.indexes:
            keys = [(field, 1) for field in fields if field != "id"]
            await documents.create_index(keys, name=index_name(table, fields))
        for rule in table.unique:
            name = index_name(table, rule.fields, unique=True)
            key = _live_key(rule.fields)
            await documents.create_index([(key, 1)], name=name, unique=True, sparse=True)
            # Documents of an earlier version have only the keys of its rules.
            live = {rule.among[0]: {"$in": list(rule.among[1])}} if rule.among else {}
            async for found in documents.find({key: {"$exists": False}, **live}):
                kept = _stored(table, _document(found), found["version"])[key]
                asked = {"_id": found["_id"], "version": found["version"]}
                await documents.update_one(asked, {"$set": {key: kept}})

    async def now_ms(self) -> int:
        if self._clock.monotonic_ns() - self._measured_ns >= _MEASURE_EVERY_NS:
            async with self._failures_named():
                self._ahead_ms = min([await self._distance() for _ in range(_ROUND_TRIPS)])[1]
            self._measured_ns = self._clock.monotonic_ns()
        return self._clock.now_ms() + self._ahead_ms

    async def _distance(self) -> tuple[int, int]:
        """The round-trip time, and how far the server's clock is ahead of this one."""
        asked_ms = self._clock.now_ms()
        answer = await self._client.admin.command("hello")
        took_ms = self._clock.now_ms() - asked_ms
        server_ms = round(answer["localTime"].replace(tzinfo=UTC).timestamp() * 1000)
        return took_ms, server_ms - asked_ms - took_ms // 2

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        asked, now_ms = self._database[table.name], await self.now_ms()
        async with self._failures_named():
            cursor = asked.find(_filter(table, query, now_ms)).sort(_sort(table, order))
            return [_document(found) async for found in cursor.limit(limit)]

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        return [found for query in queries for found in await self.find(table, query, order, 1)]

    async def counts(self, table: Table) -> Counts:
        # There are no triggers to maintain counts, and not every server groups by several fields.
        async with self._failures_named():
            found = self._database[table.name].find({}, dict.fromkeys(table.counted, 1))
            return Counter(
                [
                    tuple(field_of(document, field) for field in table.counted)
                    async for document in found
                ]
            )

    async def insert(self, table: Table, document: Document) -> bool:
        async with self._failures_named():
            try:
                await self._database[table.name].insert_one(_stored(table, document, 1))
            except DuplicateKeyError:
                return False
        return True

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        version = document["version"]
        async with self._failures_named():
            try:
                done = await self._database[table.name].replace_one(
                    {"_id": document["id"], "version": version},
                    _stored(table, document, version + 1),
                )
            except DuplicateKeyError:
                return "rival"
        return "written" if done.matched_count else "changed"

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        async with self._failures_named():
            done = await self._database[table.name].delete_one({"_id": id_, **expect})
        return done.deleted_count == 1

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        claimed: list[Document] = []
        documents, now_ms = self._database[table.name], await self.now_ms()
        asked, sort = _filter(table, claim.query, now_ms), _sort(table, claim.order)
        for _ in range(claim.most):
            # A document that was claimed just now may still match.
            others = {"$and": [asked, {"_id": {"$nin": [found["id"] for found in claimed]}}]}
            found = await self._patch(documents, others, claim.patch, now_ms, sort)
            if found is None:
                break
            claimed.append(found)
        return claimed

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        documents, now_ms = self._database[table.name], await self.now_ms()
        return [
            await self._patch(documents, {"_id": write.id, **write.expect}, write.patch, now_ms)
            for write in writes
        ]

    async def _patch(
        self,
        documents: AsyncCollection[Document],
        asked: Document,
        patch: Patch,
        now_ms: int,
        sort: list[tuple[str, int]] | None = None,
    ) -> Document | None:
        added = {path: value.amount for path, value in patch.items() if isinstance(value, Add)}
        kept = {path: resolved(value, now_ms) for path, value in patch.items() if path not in added}
        change = {"$inc": {**added, "version": 1}, **({"$set": kept} if kept else {})}
        async with self._failures_named():
            found = await documents.find_one_and_update(
                asked, change, sort=sort, return_document=ReturnDocument.AFTER
            )
        return _document(found) if found else None

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        async with in_time(self.where, self._timeout_s), self._failures_named():
            return await self._lease(key, ask)

    async def _lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        budgets, races = self._database["budgets"], 0
        while found := await budgets.find_one({"_id": key}):
            version = found["version"]
            changed, grant = lease(_decode_budget(found["budget"]), ask, await self.now_ms())
            written = await budgets.find_one_and_update(
                {"_id": key, "version": version},
                {"$set": {"budget": _encode(changed).decode(), "version": version + 1}},
            )
            if written:
                return grant
            await self._clock.sleep(_ASIDE.delay(races, random()))
            races += 1
        return None

    async def open_budget(self, key: str) -> None:
        async with self._failures_named():
            with suppress(DuplicateKeyError):
                await self._database["budgets"].insert_one(
                    {"_id": key, "version": 1, "budget": _encode(Budget()).decode()}
                )

    async def budget(self, key: str) -> Budget:
        async with self._failures_named():
            found = await self._database["budgets"].find_one({"_id": key})
        return _decode_budget(found["budget"]) if found else Budget()

    async def unblock(self, key: str, until_ms: int) -> bool:
        budgets = self._database["budgets"]
        async with self._failures_named():
            while found := await budgets.find_one({"_id": key}):
                freed = unblocked(_decode_budget(found["budget"]), until_ms)
                if freed is None:
                    return False
                version = found["version"]
                changed = {"budget": _encode(freed).decode(), "version": version + 1}
                same = {"_id": key, "version": version}
                if await budgets.find_one_and_update(same, {"$set": changed}):
                    return True
        return False

    async def close(self) -> None:
        await self._client.close()

    @asynccontextmanager
    async def _failures_named(self) -> AsyncIterator[None]:
        try:
            yield
        except ConnectionFailure as error:
            raise StoreUnreachable(self.where, f"no connection ({error})") from error
        except PyMongoError as error:
            if error.timeout:
                raise StoreUnreachable(self.where, f"no answer ({error})") from error
            remedy = "Look at the server's log; nothing acknowledged is lost."
            raise StorageError(self.where, str(error), remedy) from error


def _live_key(fields: Sequence[str]) -> str:
    return "_".join(["live_key", *fields]).replace(".", "_")


def _stored(table: Table, document: Document, version: int) -> Document:
    kept = {name: value for name, value in document.items() if name != "id"}
    for rule in table.unique:
        if rule.among is None or field_of(document, rule.among[0]) in rule.among[1]:
            values = [field_of(document, field) for field in rule.fields]
            kept[_live_key(rule.fields)] = _encode(values).decode()
    return {**kept, "_id": document["id"], "version": version}


def _document(found: Document) -> Document:
    hidden = ("_id", "live_key_")
    kept = {name: value for name, value in found.items() if not name.startswith(hidden)}
    return {**kept, "id": found["_id"]}


def _sort(table: Table, order: Sequence[str]) -> list[tuple[str, int]]:
    for field in order:
        table.type_of(field)
    return [*((field, 1) for field in order), ("_id", 1)]


def _filter(table: Table, query: Query, now_ms: int) -> Document:
    alternatives = [
        {"$and": [_condition(table, where, now_ms) for where in alternative]} if alternative else {}
        for alternative in query
    ]
    return {"$or": alternatives} if alternatives else {}


def _condition(table: Table, where: Condition, now_ms: int) -> Document:
    type_ = table.type_of(where.field)
    field = "_id" if where.field == "id" else where.field
    value: Any = resolved(where.value, now_ms)
    if where.is_ == "=":
        return {field: {"$eq": value}}
    if where.is_ == ">" and value is None:
        return {field: {"$gte": _LEAST[type_]}}
    return {field: {_OPERATORS[where.is_]: list(value) if isinstance(value, tuple) else value}}
