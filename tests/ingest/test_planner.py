"""Plans: the cheapest endpoint and page size, the concurrency, and a time within the limits."""

from dataclasses import replace
from math import ceil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.plan_view import eta_words, plan_lines
from penstock.exchanges.paged import PageCost, PagedEndpoint
from penstock.ingest.concurrency import FEW_TRADES, MOST
from penstock.ingest.planned_time import Budget, Load, duration_ms
from penstock.ingest.planner import Survey, cheapest, plan, plan_all, requests_for
from penstock.throttle.gate import Limit

PACED = Limit(10, 1000, "request", kind="paced", burst=10)
ALIGNED = Limit(6000, 60_000)
TRADES = PagedEndpoint("trades", "/trades", (PageCost(1000, 25),), 500)
COSTS = (PageCost(99, 1), PageCost(499, 2), PageCost(1000, 5), PageCost(1500, 10))
STEPPED = PagedEndpoint("candles", "/klines", COSTS, 500)

costs = st.lists(st.builds(PageCost, st.integers(1, 1500), st.integers(1, 50)), min_size=1)
endpoints = st.builds(PagedEndpoint, st.just("trades"), st.just("/x"), costs.map(tuple), st.just(1))
limits = st.builds(
    Limit,
    st.integers(50, 10_000),
    st.sampled_from([1000, 60_000]),
    st.sampled_from(["weight", "request"]),
    kind=st.sampled_from(["aligned", "paced"]),
    burst=st.integers(50, 100),
)
budgets = st.builds(
    lambda limits, share, now_ms: Budget({each: int(each.most * share) for each in limits}, now_ms),
    st.lists(limits, min_size=1, max_size=3),
    st.floats(0, 1),
    st.integers(0, 10**12),
)


def surveyed(**known: Any) -> Survey:
    given_: dict[str, Any] = {
        "exchange_id": "binance", "symbol": "BTC/USDT", "endpoints": (TRADES,), "parts": (0,),
        "latency_ms": 100.0, "budget": Budget({ALIGNED: 0}), **known,
    }  # fmt: skip
    return Survey(rows=sum(given_["parts"]), **given_)


surveys = st.builds(
    lambda endpoint, parts, overlap, budget, latency_ms, walk: surveyed(
        endpoints=(endpoint,), parts=tuple(parts), overlap=overlap, budget=budget,
        latency_ms=latency_ms, is_walk=walk,
    ),
    endpoints,
    st.lists(st.integers(0, 10**7), min_size=1, max_size=3),
    st.integers(0, 3),
    budgets,
    st.floats(0, 10_000),
    st.booleans(),
)  # fmt: skip


@given(surveys)
def test_pages_cover_all_rows_and_something_is_in_flight(survey: Survey) -> None:
    made = plan(survey)

    assert made.requests * made.page_size >= made.rows == sum(survey.parts)
    assert (made.requests == 0) == (made.rows == 0)
    assert made.weight == made.requests * made.cost
    assert made.weight_per_row * made.rows == pytest.approx(made.weight)
    assert 1 <= made.concurrency <= max(1, min(MOST, made.requests))
    if survey.is_walk or made.rows <= FEW_TRADES:
        assert made.concurrency == 1


@given(st.lists(endpoints, min_size=1, max_size=3), st.integers(0, 10**6))
def test_no_endpoint_and_page_size_costs_less(offered: list[PagedEndpoint], rows: int) -> None:
    choice = cheapest(offered, [rows])

    for endpoint in offered:
        for size, cost in endpoint.costs:
            assert choice.weight <= ceil(rows / size) * cost


@pytest.mark.parametrize(
    ("rows", "page_size", "weight"),
    [(50, 99, 1), (100, 499, 2), (499, 499, 2), (998, 499, 4), (1000, 1000, 5), (50_000, 499, 202)],
)
def test_a_larger_page_is_not_always_cheaper(rows: int, page_size: int, weight: int) -> None:
    choice = cheapest([STEPPED], [rows])

    assert (choice.rows, choice.weight) == (page_size, weight)


@given(surveys, st.integers(1, 100))
def test_the_time_is_enough_for_the_limits(survey: Survey, concurrency: int) -> None:
    made = plan(survey, chunk_concurrency=concurrency)

    assert made.eta_s is not None
    assert made.eta_s * 1000 >= made.requests / made.concurrency * survey.latency_ms - 1
    for limit, used in survey.budget.used.items():
        total = limit.charge(made.cost, "") * made.requests
        if limit.kind == "paced":
            allowed = limit.most - used + limit.amount / limit.period_ms * made.eta_s * 1000
        else:
            now_ms = survey.budget.now_ms
            end_ms = now_ms + made.eta_s * 1000
            windows = end_ms // limit.period_ms - now_ms // limit.period_ms
            allowed = limit.amount * windows + limit.amount - used
        assert total <= allowed + 0.01 * limit.amount


@given(surveys, st.integers(1, 100), st.floats(1, 10))
def test_slower_responses_never_make_it_faster(
    survey: Survey, concurrency: int, slower: float
) -> None:
    slow = replace(survey, latency_ms=survey.latency_ms * slower)

    one, other = (plan(each, chunk_concurrency=concurrency).eta_s for each in (survey, slow))
    assert one is not None
    assert other is not None
    assert one <= other + 0.001
    assert plan(survey).concurrency <= plan(slow).concurrency


@given(surveys, st.integers(1, 100), st.integers(2, 10))
def test_a_higher_limit_never_makes_it_slower(survey: Survey, concurrency: int, times: int) -> None:
    used = {replace(each, amount=each.amount * times): n for each, n in survey.budget.used.items()}
    wide = replace(survey, budget=Budget(used, survey.budget.now_ms))

    one, other = (plan(each, chunk_concurrency=concurrency).eta_s for each in (survey, wide))
    assert one is not None
    assert other is not None
    assert other <= one + 0.001


@given(surveys, st.floats(0, 0.9))
def test_what_others_take_is_not_used(survey: Survey, share: float) -> None:
    others = {each: int(each.amount * share) for each in survey.budget.used}
    shared = replace(survey, budget=replace(survey.budget, others=others))

    alone, crowded = plan(survey).eta_s, plan(shared).eta_s
    assert alone is not None
    assert crowded is None or crowded >= alone - survey.latency_ms / 1000 * 3


def test_without_any_of_the_limit_there_is_no_end() -> None:
    budget = Budget({PACED: 10}, others={PACED: 10})

    made = plan_all([surveyed(parts=(50_000,), budget=budget)])

    assert made.eta_s is None
    assert "no end" in plan_lines(made)[-1]
    assert msgspec.to_builtins(made)["plans"][0]["eta_s"] is None


@pytest.mark.parametrize(
    ("requests", "concurrency", "limit", "used", "now_ms", "expected_ms"),
    [
        # A bucket of ten, then ten per second, and the last response.
        (1000, 34, PACED, 0, 0, 99_000 + 3000),
        (1000, 34, PACED, 10, 0, 100_000 + 3000),
        # One in flight waits for each response.
        (1000, 1, PACED, 0, 0, 3_000_000),
        # 6,000 in this minute, 6,000 in the next, and ten seconds into the one after.
        (520, 12, ALIGNED, 0, 0, 120_000 + 40 / 4 * 1000),
        (520, 12, ALIGNED, 0, 30_000, 30_000 + 60_000 + 160 / 4 * 1000),
        (200, 12, ALIGNED, 6000, 59_000, 1_000 + 200 / 4 * 1000),
    ],
)
def test_the_time_by_hand(
    requests: int, concurrency: int, limit: Limit, used: int, now_ms: int, expected_ms: float
) -> None:
    load = Load(requests, 25, "", concurrency)

    took_ms = duration_ms([load], Budget({limit: used}, now_ms), 3000.0)

    assert took_ms == pytest.approx(expected_ms, rel=0.02)


def test_ranges_share_the_limits_of_their_exchange() -> None:
    bucket = Budget({PACED: 10})
    one = surveyed(exchange_id="coinbase", parts=(100_000,), budget=bucket, latency_ms=500.0)
    other = surveyed(exchange_id="binance", parts=(100_000,), latency_ms=500.0)

    alone = plan_all([one], workers=3)
    both = plan_all([one, one], workers=3)
    apart = plan_all([one, other], workers=3)

    assert alone.eta_s == alone.plans[0].eta_s == pytest.approx(10.5)
    assert both.eta_s == pytest.approx(20.5)
    assert both.plans[0].eta_s == alone.eta_s
    assert both.plans[0].concurrency < alone.plans[0].concurrency
    assert apart.eta_s == max(each.eta_s or 0 for each in apart.plans)
    assert (both.requests, both.rows, both.weight) == (200, 200_000, 5000)


def test_a_separate_limit_for_each_market_is_not_shared() -> None:
    each_pair = Limit(1, 1000, "request", category="pair/*", kind="paced")
    budget = Budget({each_pair: 0})
    one, other = (
        surveyed(parts=(60_000,), budget=budget, category=f"pair/{name}", is_walk=True)
        for name in ("a", "b")
    )

    assert plan_all([one, other], workers=2).eta_s == plan(one).eta_s == pytest.approx(59.1)
    assert plan_all([one, one], workers=2).eta_s == pytest.approx(119.1)


def test_overlapping_pages_and_separate_parts() -> None:
    assert requests_for([3000], 1000) == 3
    assert requests_for([3000], 1000, 1) == 4
    assert requests_for([1001], 1000, 1) == 2
    assert requests_for([1, 0, 501], 500) == 3


def test_a_plan_is_shown_in_few_lines() -> None:
    note = "the range begins before the listing: the first trade has the id 1"
    paced = Budget({PACED: 0})
    flat = PagedEndpoint("trades", "/products/{}/trades", (PageCost(1000, 1),), 1000)
    one = surveyed(
        exchange_id="coinbase", symbol="BTC/USD", endpoints=(flat,), parts=(3_000_000,),
        budget=paced, latency_ms=500.0, notes=(note,),
    )  # fmt: skip
    nothing = replace(one, symbol="ETH/USD", parts=(0,), rows=0, notes=())

    assert plan_lines(plan_all([one, nothing], workers=2)) == [
        "coinbase BTC/USD trades: 3,000,000 rows from /products/…/trades",
        "  3,000 pages × 1,000 rows, weight 3,000 (0.001 per row), 7 at a time, about 5 min",
        f"  {note}",
        "coinbase ETH/USD trades: nothing to fetch",
        "in all: 3,000 requests, 3,000,000 rows, weight 3,000, 2 markets at a time, about 5 min",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "under a second"),
        (59.6, "about 1 min"),
        (3_725, "about 1 h 2 min"),
        (7_203, "about 2 h"),
        (100_000, "about 1 d 3 h"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert eta_words(seconds) == words


def test_what_others_take_of_a_limit_of_each_market_counts_for_each() -> None:
    each_pair = Limit(2, 1000, "request", category="pair/*", kind="paced")
    survey = surveyed(parts=(60_000,), category="pair/a", is_walk=True)

    alone = plan(replace(survey, budget=Budget({each_pair: 0})))
    shared = plan(replace(survey, budget=Budget({each_pair: 0}, others={each_pair: 1})))

    assert alone.eta_s == pytest.approx(29.6)
    assert shared.eta_s == pytest.approx(59.1)
