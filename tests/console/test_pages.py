"""Every page in a real browser, on a demo that runs: what it shows is what the API says."""

import json
import re
import time
from dataclasses import dataclass
from dataclasses import field as field_of
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from tests.console.axe import violations
from tests.console.conftest import Visit, visiting
from tests.console.scene import Scene, until

PAGES = (
    "overview", "market/binance/BTC%2FUSDT", "coverage", "jobs", "limits", "connections",
    "processes", "storage", "logs", "config",
)  # fmt: skip
PICTURED = ("overview", "market", "coverage")
"""Pages of which docs/screenshots has pictures."""
NO_LOOK_AGAIN = """const real = setInterval;
    window.setInterval = (run, ms, ...rest) => (ms === 5000 ? 0 : real(run, ms, ...rest));"""
"""A script by which a page never reads its chart again on its own."""
SCREENS = {"light": ("light", 1360), "dark": ("dark", 1360), "phone": ("dark", 390)}
"""Scheme and width."""
BEST = """["bid", "ask"].map(
    (name) => document.querySelector(`[data-field=${name}]`).textContent)"""
PATIENCE_MS = 60_000
PICTURED_AFTER_MS, DRAWN_MS = 150_000, 3_000
WIDE_TABLES = """[...document.querySelectorAll(".table-scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => one.querySelector("table")?.dataset.table)"""
expect.set_options(timeout=PATIENCE_MS)


def look(page: Page, demo: Scene, path: str) -> None:
    """Open a page, and wait until it shows data."""
    page.goto(f"{demo.url}/{'' if path == 'overview' else path}")
    expect(page.locator("#live")).to_have_attribute("data-live", "live")
    expect(page.locator("main")).to_have_attribute("data-ready", "true")


def field(where: Page | Locator, name: str) -> Locator:
    return where.locator(f'[data-field="{name}"]').first


def number(where: Page | Locator, name: str) -> float:
    """A number as it is shown; 1.2 k is 1200."""
    return amount(field(where, name).inner_text())


def amount(text: str) -> float:
    found = re.search(r"([\d,]+(?:\.\d+)?)\s*(k|M)?", text)
    assert found, text
    scale = {"k": 1e3, "M": 1e6}.get(found[2] or "", 1.0)
    return float(found[1].replace(",", "")) * scale


def test_the_overview_equals_the_api(page: Page, demo: Scene) -> None:
    look(page, demo, "overview")
    told = until(lambda: (found := demo.get("overview"))["totals"]["messages_per_s"] and found)
    for exchange in told["exchanges"]:
        row = page.locator(f'[data-table=exchanges] tr[data-row="{exchange["exchange"]}"]')
        expect(row).to_have_attribute("data-light", "ok")
        expect(field(row, "markets")).to_have_text(str(exchange["markets"]))
        expect(field(row, "gaps_open")).to_have_text(str(exchange["gaps_open"]))
        up, connections = exchange["connections_up"], exchange["connections"]
        expect(field(row, "connections")).to_have_text(f"{up} / {connections}")
    assert int(number(page, "processes")) == told["totals"]["processes"]
    expect(field(page, "messages_per_s")).not_to_have_text("–")
    # Rates change from second to second.
    rate = demo.get("overview")["totals"]["messages_per_s"]
    assert number(page, "messages_per_s") == pytest.approx(rate, rel=0.5)


def test_a_market_moves_and_equals_the_api(page: Page, demo: Scene) -> None:
    look(page, demo, "market/binance/BTC%2FUSDT")
    expect(field(page, "badge")).to_have_text("synced")
    expect(page.locator("[data-trade]").first).to_be_visible()
    assert int(page.locator("[data-chart=candles]").get_attribute("data-candles") or 0) >= 1
    sequence = field(page, "sequence").inner_text()
    expect(field(page, "sequence")).not_to_have_text(sequence)
    told = demo.get("market/binance/BTC/USDT")
    assert number(page, "bid") == pytest.approx(float(told["bid"]), rel=0.01)
    bid, ask = page.evaluate(BEST)  # of one moment
    assert amount(bid) < amount(ask)
    shown = page.locator("[data-trade]").first.get_attribute("data-trade")
    stored = demo.get("trades", exchange="binance", symbol="BTC/USDT", since="-1m", limit="10000")
    assert int(shown or 0) >= min(each["id"] for each in stored["items"])


def test_a_paused_job_is_paused_in_the_store(page: Page, demo: Scene) -> None:
    job = demo.post(
        "jobs",
        {
            "exchange_id": "binance", "type": "ohlcv_incremental", "symbol": "BTC/USDT",
            "timeframe": "1h", "schedule": {"mode": "interval", "interval_ms": 3_600_000},
        },
    )  # fmt: skip
    look(page, demo, "jobs")
    row = page.locator(f'tr[data-job-id="{job["id"]}"]')
    row.locator("button[data-action=pause]").click()
    expect(row).to_have_attribute("data-status", "paused")
    assert demo.get(f"jobs/{job['id']}")["status"] == "paused"
    row.locator("button[data-action=resume]").click()
    expect(row).to_have_attribute("data-status", "active")
    assert demo.get(f"jobs/{job['id']}")["status"] == "active"
    look(page, demo, f"jobs/{job['id']}")
    history = page.locator("[data-card=history] li[data-event]")
    expect(history.filter(has_text="paused").first).to_be_visible()
    said = [each["what"] for each in demo.get(f"jobs/{job['id']}/events")]
    assert sorted(said) == sorted(each.get_attribute("data-event") or "" for each in history.all())


def test_limits_connections_and_processes_equal_the_api(page: Page, demo: Scene) -> None:
    look(page, demo, "limits")
    for item in demo.get("limits")["items"]:
        card = page.locator(f'[data-exchange="{item["exchange"]}"]')
        gauge = card.locator(f'[data-window="{item["window"]}"]')
        assert int(number(gauge, "limit")) == item["limit"]
    look(page, demo, "connections")
    until(lambda: len(demo.get("connections")["items"]) >= 2)
    told = demo.get("connections")["items"]
    expect(page.locator("tr[data-connection]")).to_have_count(len(told))
    look(page, demo, "processes")
    names = {each["name"] for each in demo.get("processes")["items"]}
    expect(page.locator("tr[data-process]")).to_have_count(len(names))
    shown = page.locator("tr[data-process]").all()
    assert {each.get_attribute("data-process") for each in shown} == names


def test_storage_logs_and_config_equal_the_api(page: Page, demo: Scene) -> None:
    look(page, demo, "logs")
    expect(page.locator("[data-list=logs] li[data-level]").first).to_be_visible()
    look(page, demo, "config")
    expect(page.locator("tr[data-setting]").first).to_be_visible()
    rows = {
        each.get_attribute("data-setting"): each for each in page.locator("tr[data-setting]").all()
    }
    for item in demo.get("config")["items"]:
        if item["name"] in rows:
            expect(field(rows[item["name"]], "origin")).to_contain_text(item["origin"].split()[0])
    assert len(rows) > 10
    look(page, demo, "storage")
    for each in demo.get("storage")["datasets"]:
        expect(page.locator(f'tr[data-dataset="{each["name"]}"]')).to_be_visible()


@dataclass(frozen=True)
class Seen:
    """What a page was like when it had data."""

    pixels_too_wide: int
    wide_tables: list[str]
    violations: dict[str, Any]


@dataclass
class Tour:
    """Every page once, on one kind of screen: to load pages costs most."""

    screen: str
    pages: dict[str, Seen] = field_of(default_factory=dict)
    """By path."""
    requests: list[str] = field_of(default_factory=list)
    loaded_bytes: int = 0
    """Of what the last page loaded."""


@pytest.fixture(scope="module")
def tour(request: pytest.FixtureRequest, browser: Browser, demo: Scene, screenshots: Path) -> Tour:
    name = request.param
    scheme, width = SCREENS[name]
    tour = Tour(name)
    with visiting(browser, color_scheme=scheme, viewport={"width": width, "height": 900}) as visit:
        is_for_docs = screenshots.parent.name == "docs"
        if is_for_docs and name == "light":  # there is more to see later
            visit.page.wait_for_timeout(PICTURED_AFTER_MS)
        for path in PAGES:
            look(visit.page, demo, path)
            if path.startswith("market/"):
                expect(field(visit.page, "badge")).to_have_text("synced")
            over = visit.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            tables = visit.page.evaluate(WIDE_TABLES)
            if path.startswith(PICTURED):
                visit.page.wait_for_timeout(DRAWN_MS if is_for_docs else 0)
                visit.page.screenshot(path=screenshots / f"{path.partition('/')[0]}-{name}.png")
            found = {} if name == "phone" else violations(visit.page)
            tour.pages[path] = Seen(over, tables, found)
        sizes = "performance.getEntriesByType('resource').map((each) => each.decodedBodySize)"
        tour.loaded_bytes = sum(visit.page.evaluate(sizes))
        tour.requests = visit.requests
    return tour


@pytest.mark.parametrize("tour", ["light"], indirect=True, scope="module")
def test_no_request_leaves_the_origin(tour: Tour, demo: Scene) -> None:
    assert len(tour.requests) > len(PAGES)
    assert not [url for url in tour.requests if not url.startswith(demo.url)]
    assert tour.loaded_bytes <= 400_000


@pytest.mark.parametrize("tour", SCREENS, indirect=True, scope="module")
def test_pages_fit_and_screenshots_are_written(tour: Tour, screenshots: Path) -> None:
    name = tour.screen
    for path, seen in tour.pages.items():
        assert seen.pixels_too_wide <= 0, f"{path} is {seen.pixels_too_wide} pixels too wide"
        if name == "phone":
            assert not seen.wide_tables, f"{path} scrolls inside"
    for pictured in PICTURED:
        assert (screenshots / f"{pictured}-{name}.png").is_file()


@pytest.mark.parametrize("tour", ["light", "dark"], indirect=True, scope="module")
def test_assistive_technology_can_use_every_page(tour: Tour) -> None:
    found = {
        f"{path}: {each}": why
        for path, seen in tour.pages.items()
        for each, why in seen.violations.items()
    }
    assert not found, json.dumps(found, indent=1)


# Late, for there are enough candles by now.
def test_a_chart_that_the_server_kept_for_a_while_is_completed_at_once(
    page: Page, demo: Scene
) -> None:
    market = {"exchange": "binance", "symbol": "BTC/USDT", "interval": "1s"}
    until(lambda: len(demo.get("market/candles", **market)["items"]) > 20)

    def old(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        route.fulfill(response=answer, json={**found, "items": found["items"][:-15]})

    page.route("**/market/candles*limit=500*", old)
    page.add_init_script(NO_LOOK_AGAIN)
    with page.expect_response(lambda answer: "limit=40" in answer.url, timeout=PATIENCE_MS):
        page.goto(f"{demo.url}/market/binance/BTC%2FUSDT?interval=1s")


def test_a_killed_server_is_shown_at_once_and_the_page_recovers(visit: Visit, demo: Scene) -> None:
    visit.expected = ("WebSocket", "Failed to load resource", "ERR_CONNECTION_REFUSED")
    look(visit.page, demo, "overview")
    port = demo.url.rpartition(":")[2]
    try:
        demo.kill("serve")
        killed_s = time.monotonic()
        banner = visit.page.locator("#banner[data-banner=offline]")
        expect(banner).to_be_visible()
        shown_s = time.monotonic() - killed_s
    finally:
        demo.serve(port)
    begun_s = time.monotonic()
    expect(visit.page.locator("#live")).to_have_attribute("data-live", "live")
    live_s = time.monotonic() - begun_s
    # A second and ten on a machine that has nothing else to do.
    assert shown_s < 5, shown_s
    assert live_s < 20, live_s
