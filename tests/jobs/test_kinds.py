"""What every kind of job promises, and what becomes of jobs whose kind is not known."""

from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import AlreadyExists, BadJob, GapOverlaps, UnknownKind
from penstock.ingest.id_ranges import IdRangeCursor
from penstock.ingest.registry import kinds
from penstock.jobs import JobEdit, JobService, Leases, NewJob
from penstock.jobs.documents import as_document, as_job
from penstock.jobs.kinds import AnyKind, forms
from penstock.jobs.model import Job
from penstock.jobs.ranges import held
from penstock.jobs.validation import admitted
from penstock.storage.state import StateStore
from penstock.storage.state.schema import JOBS


class Row(NamedTuple):
    """Two jobs of a kind that may live side by side, and the key of the first."""

    one: dict[str, Any]
    other: dict[str, Any]
    key: str


def ids(first: int, last: int, **fields: Any) -> dict[str, Any]:
    """A gap of trades."""
    return {"symbol": "btc_usdt", "cursor": {"first_id": first, "last_id": last, **fields}}


BTC, ETH = ({"symbol": f"{base}_usdt", "timeframe": "1h"} for base in ("btc", "eth"))
ROWS = {
    "markets_refresh": Row({}, {"exchange_id": "other"}, "{}"),
    "ohlcv_incremental": Row(BTC, ETH, '{"symbol":"BTC/USDT","timeframe":"1h"}'),
    "ohlcv_backfill": Row(
        {**BTC, "cursor": {"since_ms": 5}}, ETH, '{"symbol":"BTC/USDT","timeframe":"1h"}'
    ),
    "gap_backfill": Row(
        {**BTC, "cursor": {"since_ms": 5, "until_ms": 9}},
        {**BTC, "cursor": {"since_ms": 9, "until_ms": 12}},
        '{"since_ms":5,"symbol":"BTC/USDT","timeframe":"1h","until_ms":9}',
    ),
    "trade_scan": Row(
        {"symbol": "btc_usdt"},
        {"symbol": "btc_usdt", "cursor": {"channel": "agg_trades"}},
        '{"channel":"trades","symbol":"BTC/USDT"}',
    ),
    "trades_backfill": Row(
        {"symbol": "btc_usdt", "cursor": {"from_id": 5, "to_id": 9}},
        {"symbol": "btc_usdt", "cursor": {"since_ms": 5}},
        '{"from_id":5,"symbol":"BTC/USDT","to_id":9}',
    ),
}
every = pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)


def new(kind: AnyKind, fields: dict[str, Any]) -> NewJob:
    return NewJob(**{"exchange_id": "sim", "type": kind.name, **fields})


def made(kind: AnyKind, fields: dict[str, Any]) -> Job:
    return admitted(new(kind, fields), kinds(), "j", 1_000)


def test_every_kind_is_tested() -> None:
    assert ROWS.keys() == kinds().keys()


@every
def test_a_key_is_the_same_in_every_version(kind: AnyKind) -> None:
    row = ROWS[kind.name]

    assert made(kind, row.one).target_key == made(kind, row.one).target_key == row.key
    assert made(kind, row.one).target == made(kind, row.one).target


@every
def test_jobs_are_the_same_if_their_targets_are(kind: AnyKind) -> None:
    one, other = (made(kind, fields) for fields in ROWS[kind.name][:2])

    assert (one.target == other.target) == (one.target_key == other.target_key)
    assert (one.target_key, one.exchange_id) != (other.target_key, other.exchange_id)


@every
def test_target_and_cursor_come_back_from_a_document_as_they_were(kind: AnyKind) -> None:
    for fields in ROWS[kind.name][:2]:
        job = made(kind, fields)
        stored = msgspec.json.decode(msgspec.json.encode(as_document(job)))

        again = as_job(stored, kinds())

        assert again == job
        assert isinstance(again.target, kind.target_type)
        assert isinstance(again.cursor, kind.cursor_type)
        assert kind.market(again.target) == (again.symbol, again.timeframe)
        assert kind.ended(again.cursor) == kind.ended(kind.read_cursor(stored["cursor"]))


@every
def test_its_types_are_strict_and_cannot_be_changed(kind: AnyKind) -> None:
    for type_ in (*forms(kind.target_type), *forms(kind.cursor_type)):
        config = type_.__struct_config__
        assert issubclass(type_, Struct)
        assert (config.frozen, config.forbid_unknown_fields) == (True, True)
    with pytest.raises(BadJob) as refusal:
        made(kind, {**ROWS[kind.name].one, "cursor": {"nonsense": 1}})
    assert refusal.value.field == "nonsense"


@every
async def test_the_second_of_equal_jobs_is_rejected_and_another_target_is_not(
    store: StateStore, kind: AnyKind
) -> None:
    service, row = JobService(store, kinds()), ROWS[kind.name]
    first = await service.create(new(kind, row.one))

    with pytest.raises(AlreadyExists) as refusal:
        await service.create(new(kind, row.one))
    await service.create(new(kind, row.other))

    assert refusal.value.existing_id == first.id
    await service.delete(first.id)
    await service.create(new(kind, row.one))


async def test_gaps_of_trades_conflict_only_within_their_channel(store: StateStore) -> None:
    service, kind = JobService(store, kinds()), kinds()["gap_backfill"]
    first = await service.create(new(kind, ids(5, 9)))
    assert first.target_key == ('{"channel":"trades","first_id":5,"last_id":9,"symbol":"BTC/USDT"}')
    assert await service.get(first.id) == first
    assert isinstance(first.cursor, IdRangeCursor)

    for beside in (
        {**BTC, "cursor": {"since_ms": 5, "until_ms": 9}},
        {**ids(5, 9), "symbol": "eth_usdt"},
        ids(5, 9, channel="agg_trades"),
        ids(10, 12),
    ):
        await service.create(new(kind, beside))
    for within in (ids(5, 9), ids(9, 9), ids(1, 5), ids(9, 20)):
        with pytest.raises(AlreadyExists):
            await service.create(new(kind, within))
    with pytest.raises(AlreadyExists):
        await service.edit(first.id, JobEdit(cursor={"first_id": 5, "last_id": 10}), version=None)


async def test_a_range_in_the_making_is_reserved_within_its_channel(store: StateStore) -> None:
    kind = kinds()["gap_backfill"]
    one, other = (made(kind, ids(5, 9)), replace(made(kind, ids(9, 9)), id="k"))

    async with held(store, one, "trades", (5, 10)):
        async with held(store, other, "agg_trades", (9, 10)):
            pass
        with pytest.raises(GapOverlaps):
            async with held(store, other, "trades", (9, 10)):
                pass


def of_newer_version(**fields: Any) -> dict[str, Any]:
    """A job with a kind, a target and a cursor that this version never saw."""
    job = as_document(made(kinds()["ohlcv_backfill"], BTC))
    unseen = {"type": "seal", "target": {"day": "2026-01-01"}, "target_key": "2026-01-01"}
    return {**job, "cursor": {"file": 3}, **unseen, "wake_at": 1, "unheard": {"of": 1}, **fields}


async def test_jobs_of_an_unknown_kind_are_shown_and_left_alone(store: StateStore) -> None:
    service, leases = JobService(store, kinds()), Leases(store, kinds())
    waiting = {"id": "w", "target_key": "w", "state": "waiting_rate_limit", "origin": "apply"}
    before = [of_newer_version(), of_newer_version(**waiting)]
    for document in before:
        await store.insert_if_absent(JOBS, document)

    found = await service.find()
    assert [(job.type, job.is_known, job.cursor) for job in found] == [
        ("seal", False, {"file": 3})
    ] * 2
    assert await leases.claim("me", 10, 60_000) == []
    assert await leases.next_due_ms() is None
    assert await leases.next_waiting() is None
    assert await service.wake("sim") == 0
    for change in (service.pause, service.resume, service.run, service.delete):
        with pytest.raises(UnknownKind, match="Use the version that created it"):
            await change("j")
    for edit in (JobEdit(priority=1), JobEdit(cursor={"file": 4})):
        with pytest.raises(UnknownKind):
            await service.edit("j", edit, version=None)

    assert await store.find(JOBS) == [{**document, "version": 1} for document in before]


async def test_a_job_that_a_newer_version_of_its_kind_wrote_is_shown(store: StateStore) -> None:
    known = {"type": "ohlcv_backfill", "target": {"symbol": "BTC/USDT", "timeframe": "1h"}}
    await store.insert_if_absent(JOBS, of_newer_version(**known))
    service = JobService(store, kinds())

    (job,) = await service.find()

    assert (job.is_known, job.cursor) == (False, {"file": 3})
    with pytest.raises(UnknownKind):
        await service.delete(job.id)


async def test_a_job_with_fields_of_another_form_is_shown_as_far_as_it_can_be_read(
    store: StateStore,
) -> None:
    strange = {"schedule": {"mode": "cron"}, "state": "resting", "stats": 5}
    document = of_newer_version(**strange)
    del document["cursor"]
    await store.insert_if_absent(JOBS, document)

    (job,) = await JobService(store, kinds()).find()

    assert (job.type, job.is_known, job.schedule, job.target_key) == (
        "seal", False, None, "2026-01-01"
    )  # fmt: skip
