"""Plans of faults: how they are written, and what is drawn from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.simulator.engine.faults import KINDS, Fault, FaultPlan, read_plan


def _fault(text: str) -> Fault:
    (fault,) = read_plan(text).faults
    return fault


def test_every_sort_of_value_is_read() -> None:
    assert _fault("drop=0.5").chance == 1 << 63
    assert _fault("drop=1").chance == 1 << 64
    assert _fault("mute=30s").low_ms == 30_000
    assert _fault("cut=1.5s").low_ms == 1500
    latency = _fault("latency=50ms..2s")
    assert (latency.low_ms, latency.high_ms) == (50, 2000)
    assert _fault("latency=2m").high_ms == 120_000
    limit = _fault("limit=3000@10s")
    assert (limit.limit, limit.low_ms, limit.where) == (3000, 10_000, "*")
    assert _fault("limit=3000").low_ms == 0


def test_a_place_may_itself_hold_the_sign_that_introduces_it() -> None:
    plan = read_plan(" drop@btcusdt@depth*=0.1 , drop=0.2, http500@/api/v3/klines=1")

    assert [fault.where for fault in plan.faults] == ["btcusdt@depth*", "*", "/api/v3/klines"]
    narrow, wide = plan.find("drop", "btcusdt@depth@100ms"), plan.find("drop", "ethusdt@trade")
    assert narrow is plan.faults[0]
    assert wide is plan.faults[1]
    assert plan.find("http500", "/api/v3/ping") is None


def test_old_and_new_snapshots_are_of_the_book_unless_told_otherwise() -> None:
    plan = read_plan("stale=1")

    assert plan.injects("stale", "/api/v3/depth", 1)
    assert not plan.injects("stale", "/api/v3/klines", 1)
    assert read_plan("stale@*klines=1").injects("stale", "/api/v3/klines", 1)


def test_an_empty_text_is_a_plan_without_faults() -> None:
    assert read_plan("") == FaultPlan()
    assert read_plan(" , ").faults == ()
    assert not read_plan("").touches_connections()
    assert not read_plan("http500=1,latency=1s").touches_connections()
    assert all(read_plan(text).touches_connections() for text in ("mute=1s", "cut=1s", "lostack=1"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dorp=0.1", "Did you mean drop"),
        ("=0.1", "There are: mute"),
        ("xyzzy", "There are: mute"),
        ("drop", "drop=nothing is not allowed. drop takes a rate"),
        ("drop=2", "a rate from 0 to 1"),
        ("drop=-0.1", "a rate from 0 to 1"),
        ("drop=often", "a rate from 0 to 1"),
        ("drop=nan", "a rate from 0 to 1"),
        ("cut=5", "500ms, 5s or 2m"),
        ("cut=1s..2s", "500ms, 5s or 2m"),
        ("latency=2s..1s", "50ms..2s"),
        ("limit=0@5s", "3000@10s"),
        ("limit=many", "3000@10s"),
    ],
)
def test_a_bad_entry_says_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_plan(f"duplicate=0.1,{text}", origin="environment")

    assert says in str(caught.value)
    assert caught.value.name == "faults"
    assert caught.value.origin == "environment"


@given(st.text(alphabet="drop=@,.0129sm *", max_size=30))
def test_any_text_is_a_plan_or_a_setting_to_mend(text: str) -> None:
    try:
        plan = read_plan(text)
    except ConfigError:
        return
    assert all(fault.kind in KINDS for fault in plan.faults)


@given(st.integers(0, 2**32), st.integers(1, 50), st.sampled_from(["a@trade", "b@depth"]))
def test_what_is_struck_depends_on_seed_connection_stream_and_number_alone(
    seed: int, connection: int, stream: str
) -> None:
    def on_streams(plan: FaultPlan, *where: int) -> list[bool]:
        return [plan.injects("drop", stream, *where, number) for number in range(200)]

    plan, again = read_plan("drop=0.5", seed), read_plan("nan=0.1,drop=0.5", seed)

    assert on_streams(plan, connection) == on_streams(again, connection)
    assert on_streams(plan, connection) != on_streams(plan, connection + 1)
    assert on_streams(plan, connection) != on_streams(read_plan("drop=0.5", seed + 1), connection)


def test_a_rate_strikes_about_that_often() -> None:
    plan = read_plan("drop=0.01")

    on_streams = sum(plan.injects("drop", "a@trade", 1, number) for number in range(20_000))

    assert 140 <= on_streams <= 260


@pytest.mark.parametrize("place", ["/api/v3/depth", "/0/public/Depth", "/products/x/book"])
def test_stale_strikes_books_by_whatever_name(place: str) -> None:
    plan = read_plan("stale=1")

    assert plan.injects("stale", place, 1)
    assert not plan.injects("stale", "/api/v3/ticker/bookTicker", 1)


def test_a_place_may_be_one_of_several() -> None:
    plan = read_plan("drop@a*|*b=1")

    assert [plan.injects("drop", place, 1) for place in ("ax", "xb", "x")] == [True, True, False]
