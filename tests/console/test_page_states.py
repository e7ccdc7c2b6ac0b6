"""Pages in unusual states: holes, hostile texts, no data, an exchange down, many series, logins."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.console.conftest import Visit, visiting
from tests.console.scene import Scene, scene, until
from tests.console.test_pages import field, look
from tests.waiting import PATIENCE_S

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow, Run, SlotCoverage, as_document
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import COVERAGE

HOSTILE = "<img src=x onerror=window.hacked=1>"
TOKEN, READ_TOKEN = "a-token-for-all-orders", "a-token-for-reading-only"
DAY_MS = 86_400_000


def change(at: Scene, work: Callable[[StateStore], Awaitable[object]]) -> None:
    """Do something with the scene's store."""

    async def opened() -> None:
        store = await open_store(f"sqlite:{at.folder}/state.db")
        try:
            await work(store)
        finally:
            await store.close()

    # Playwright has an event loop in this thread.
    with ThreadPoolExecutor() as threads:
        threads.submit(asyncio.run, opened()).result()


def _latest_trade(demo: Scene) -> int:
    """The id of the newest trade at the exchange."""
    address = f"{demo.simulators['binance']}/api/v3/trades?symbol=BTCUSDT&limit=1"
    with urlopen(address, timeout=PATIENCE_S) as answer:
        return int(json.load(answer)[-1]["id"])


def test_a_hole_is_shown_and_fill_closes_it(page: Page, demo: Scene) -> None:
    demo.kill("work")
    look(page, demo, "coverage")
    known = {each["id"] for each in demo.get("gaps")["items"]}
    demo.control("binance", "hold", {"streams": "btcusdt@trade"})
    first_lost = _latest_trade(demo)
    until(lambda: _latest_trade(demo) > first_lost + 10)
    demo.control("binance", "hold", {"streams": ""})
    begun_s = time.monotonic()
    row = page.locator("tr[data-gap-id][data-gap-state=open]").first
    expect(row).to_be_visible()
    # Five seconds on a machine that has nothing else to do.
    assert time.monotonic() - begun_s < 20
    gap_id = row.get_attribute("data-gap-id")
    assert gap_id not in known
    row.locator("button[data-action=fill]").click()
    expect(page.locator(f'tr[data-gap-id="{gap_id}"] a[data-job-id]')).to_be_visible()
    demo.begin("work", "work")
    until(lambda: not demo.get("gaps", state="open")["items"])
    expect(page.locator("tr[data-gap-id][data-gap-state=open]")).to_have_count(0)
    expect(field(page, "gaps_open")).to_have_text("0")


def test_hostile_texts_stay_texts(visit: Visit, demo: Scene) -> None:
    visit.expected = ("404",)  # the market of that name
    page = visit.page
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = {"ts": at, "level": "error", "event": HOSTILE, "reason": HOSTILE, "symbol": HOSTILE}
    with (demo.folder / "logs" / "collect-binance.jsonl").open("a") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
    look(page, demo, "logs")
    expect(
        page.locator("[data-list=logs] li[data-level=error]").filter(has_text="onerror").first
    ).to_be_visible()
    page.locator("[data-list=logs] li[data-level=error]").filter(has_text="onerror").first.click()

    now_ms = time.time_ns() // 1_000_000
    gap = GapRow(
        exchange="binance", channel="trades", symbol=HOSTILE, by="id", first=5, last=9,
        since_ms=now_ms - 60_000, until_ms=now_ms, cause="lost", reason=HOSTILE, opened_ms=now_ms,
    )  # fmt: skip
    change(demo, lambda store: GapRows(store).open(gap))
    look(page, demo, "coverage")
    expect(page.locator("tr[data-gap-id]").filter(has_text="onerror").first).to_be_visible()
    change(demo, lambda store: GapRows(store).mark_unfillable(gap.stream, "id", 5, 9, HOSTILE))
    look(page, demo, f"market/binance/{HOSTILE.replace('/', '%2F')}")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_an_exchange_that_is_down_is_told(page: Page, demo: Scene) -> None:
    look(page, demo, "overview")
    row = page.locator('[data-table=exchanges] tr[data-row="kraken"]')
    expect(row).to_have_attribute("data-light", "ok")
    demo.kill("collect-kraken")
    expect(row).not_to_have_attribute("data-light", "ok")
    expect(row.locator("[data-why]").first).not_to_have_text("")
    demo.collect("kraken")
    expect(row).to_have_attribute("data-light", "ok")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A server without any data, that asks for a token."""
    folder: Path = tmp_path_factory.mktemp("empty") / "data"
    tokens = {"PENSTOCK_API_TOKEN": TOKEN, "PENSTOCK_API_READ_TOKEN": READ_TOKEN}
    with scene(folder, **tokens) as at:
        at.serve()
        yield at


def login(page: Page, at: Scene, token: str = TOKEN) -> None:
    page.goto(f"{at.url}/login")
    page.locator("input[data-field=token]").fill(token)
    page.locator("button[data-action=login]").click()
    expect(page.locator("#live")).to_have_attribute("data-live", "live")


def test_without_data_every_page_says_what_to_do(visit: Visit, empty: Scene) -> None:
    visit.expected = ("401",)
    page = visit.page
    page.goto(f"{empty.url}/jobs")
    expect(page.locator("form[data-form=login]")).to_be_visible()
    login(page, empty)
    for path, words in (
        ("overview", "penstock demo"), ("market", "penstock collect"),
        ("coverage", "penstock collect"), ("jobs", "penstock"), ("connections", "penstock collect"),
        ("storage", "penstock"),
    ):  # fmt: skip
        look(page, empty, path)
        expect(page.locator("main").get_by_text(words).first).to_be_visible()


def test_a_wrong_token_and_a_session_that_ended_lead_to_the_login(
    visit: Visit, empty: Scene
) -> None:
    visit.expected = ("401", "403", "429", "WebSocket")
    page = visit.page
    page.goto(f"{empty.url}/login")
    page.locator("input[data-field=token]").fill("not the token at all")
    page.locator("button[data-action=login]").click()
    expect(field(page, "problem")).not_to_have_text("")
    login(page, empty)
    visit.context.clear_cookies()
    page.goto(f"{empty.url}/jobs")
    expect(page.locator("form[data-form=login]")).to_be_visible()


def test_a_session_that_may_only_read_has_no_switches(browser: Browser, empty: Scene) -> None:
    with visiting(browser) as visit:
        visit.expected = ("401",)
        login(visit.page, empty, READ_TOKEN)
        expect(visit.page.locator("html")).to_have_attribute("data-scope", "read")
        cookie = visit.context.cookies()[0]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert "penstock" not in visit.page.evaluate("document.cookie")


def test_a_thousand_series_are_shown(visit: Visit, empty: Scene) -> None:
    visit.expected = ("401", "404")  # no log has their records
    now_ms = time.time_ns() // 1_000_000
    rows = [
        SlotCoverage(
            exchange="binance", channel="trades", symbol=f"a{number:04}_usdt", by="id",
            slot="collect-binance", log_id=1, number=1000,
            runs=(Run(1, 1000, now_ms - 3 * DAY_MS, now_ms),),
        )
        for number in range(1000)
    ]  # fmt: skip

    async def insert(store: StateStore) -> None:
        for row in rows:
            await store.insert_if_absent(COVERAGE, as_document(row))

    login(visit.page, empty)
    look(visit.page, empty, "market")
    expect(visit.page.locator("main").get_by_text("penstock collect").first).to_be_visible()
    change(empty, insert)
    # The page that said that there is no market shows the first one once there is.
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("A0000/USDT")
    look(visit.page, empty, "coverage")
    expect(field(visit.page, "series")).to_have_text("1,000")
    look(visit.page, empty, "market")
    chooser = visit.page.locator("input[data-market-input]")
    chooser.fill("a0999")
    expect(visit.page.locator('[data-market="binance A0999/USDT"]')).to_be_visible()


def test_a_wrong_clock_is_told(browser: Browser, demo: Scene) -> None:
    with visiting(browser) as visit:
        visit.page.add_init_script("const now = Date.now; Date.now = () => now() - 3_600_000;")
        look(visit.page, demo, "overview")
        expect(visit.page.locator("#banner[data-banner=skew]")).to_be_visible()


def test_a_navigation_moves_the_focus_and_closes_what_was_open(page: Page, demo: Scene) -> None:
    look(page, demo, "coverage")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("main[data-page=jobs]")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    page.go_back()
    expect(page.locator("main[data-page=coverage]")).to_be_focused()
    expect(page.locator("dialog")).to_have_count(0)
    page.evaluate("document.querySelector('main').firstElementChild.dataset.kept = 'yes'")
    page.locator("a.skip").evaluate("link => link.click()")
    expect(page.locator("main [data-kept=yes]")).to_have_count(1)
    assert "#" not in page.url


def test_a_list_of_markets_that_comes_late_leads_nowhere(page: Page, demo: Scene) -> None:
    held: list[Route] = []
    page.route("**/api/v1/collected", lambda route: held.append(route))  # noqa: PLW0108
    with page.expect_request("**/api/v1/collected"):
        page.goto(f"{demo.url}/market")
    expect(page.locator("main[data-page=market][data-ready=true]")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("main[data-page=jobs][data-ready=true]")).to_be_visible()
    with page.expect_response("**/api/v1/collected"):
        held[0].continue_()
    page.evaluate("new Promise((next) => requestAnimationFrame(() => setTimeout(next)))")
    assert page.url.endswith("/jobs")


def test_logs_follow_the_newest_line_on_a_narrow_screen(page: Page, demo: Scene) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    look(page, demo, "logs")
    expect(page.locator("[data-list=logs] li").nth(12)).to_be_attached()
    page.wait_for_function(
        "() => { const list = document.querySelector('[data-list=logs]');"
        " return list.scrollHeight - list.scrollTop - list.clientHeight < 24; }"
    )
    expect(page.locator("[data-follow]")).to_have_attribute("data-follow", "true")
    page.locator("[data-list=logs]").hover()
    page.mouse.wheel(0, -400)
    expect(page.locator("[data-follow]")).to_have_attribute("data-follow", "false")
