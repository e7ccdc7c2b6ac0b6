"""What the console costs: its page, and ten viewers who watch one market at 10 Hz.

A simulator, a collector and a server run as processes. ``frames_per_viewer_min`` are the updates
per second of the viewer that received the fewest, ``server_core_share`` the share of a core that
the server needed meanwhile. The page is loaded by a browser, if there is one: ``page_kb`` is
everything that the first page loads, uncompressed, ``market_page_kb`` the same for a market, and
``outside_requests`` how many requests went to other origins.

Takes SECONDS (20). From 300 on, a browser stays on the market's page, and the growth of its heap
and of the server is measured from the end of the first third. By then, of half an hour, the chart
has its 500 candles of a second each, which is all that it ever holds.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import aiohttp
from bench._process import cpu_s, rss_mb
from playwright.sync_api import Browser, Page, Response, sync_playwright
from tests.console.scene import Scene, chromium, scene, until

SECONDS = float(os.environ.get("SECONDS", "20"))
VIEWERS = 10
EXCHANGE, SYMBOL = "binance", "BTC/USDT"
LONG_S = 300.0
"""From this time on the memory of a browser is measured, too."""
_WARM = 1 / 3
"""The part of the time after which memory is first measured."""
_LOADED_S = 3.0
_LOOKS = 10


def main() -> Mapping[str, object]:
    """Measure the page, then the viewers."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-console-") as place,
        scene(Path(place) / "data") as at,
        _browser() as browser,
    ):
        at.simulate(EXCHANGE)
        at.collect(EXCHANGE)
        at.serve()
        until(lambda: _is_shown(at))
        figures = _measure_pages(browser, at.url) if browser else {}
        watching = browser.new_page() if browser and SECONDS >= LONG_S else None
        if watching:
            watching.goto(f"{_market(at.url)}?interval=1s")
        return {**figures, **_measure_viewers(at, watching)}


def _is_shown(at: Scene) -> bool:
    try:
        return bool(at.get(f"market/{EXCHANGE}/{SYMBOL}")["book"]["bids"])
    except HTTPError:
        return False


def _market(url: str) -> str:
    return f"{url}/market/{EXCHANGE}/{SYMBOL.replace('/', '%2F')}"


@contextmanager
def _browser() -> Iterator[Browser | None]:
    found = chromium()
    if found is None:
        print("   no Chromium: the page is not measured", flush=True)
        yield None
        return
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=found, args=options)
        try:
            yield browser
        finally:
            browser.close()


def _measure_pages(browser: Browser, url: str) -> dict[str, object]:
    first, outside = _load(browser, f"{url}/", url)
    market, outside_market = _load(browser, _market(url), url)
    return {
        "page_kb": round(first / 1000, 1),
        "market_page_kb": round(market / 1000, 1),
        "outside_requests": outside + outside_market,
    }


def _load(browser: Browser, address: str, origin: str) -> tuple[int, int]:
    """The bytes that a page loads until it stands, and its requests to other origins."""
    page = browser.new_page()
    sizes: dict[str, int] = {}
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    def weigh(response: Response) -> None:
        sizes[response.url] = len(response.body())

    page.on("response", weigh)
    page.goto(address)
    page.wait_for_timeout(_LOADED_S * 1000)
    page.close()
    return sum(sizes.values()), sum(not url.startswith(origin) for url in asked)


def _measure_viewers(at: Scene, watching: Page | None) -> dict[str, object]:
    server = at.processes["serve"].pid
    counted = _watched(at.url, 2.0)  # everything is opened and compiled once
    assert min(counted), "a viewer received nothing"
    began, cpu = time.monotonic(), cpu_s(server)
    warm_s = SECONDS * _WARM if SECONDS >= LONG_S else 0.0
    frames = _watched(at.url, warm_s) if warm_s else [0] * VIEWERS
    held, heap = rss_mb(server), _heap(watching)
    rest = _watched(at.url, SECONDS - warm_s)
    took = time.monotonic() - began
    figures: dict[str, object] = {
        "viewers": VIEWERS,
        "seconds": round(took, 1),
        "frames_per_viewer_min": round(min(map(sum, zip(frames, rest, strict=True))) / SECONDS, 2),
        "server_core_share": round((cpu_s(server) - cpu) / took, 3),
        "server_rss_mb": rss_mb(server),
        "server_rss_growth": round(rss_mb(server) / held - 1, 3),
    }
    if heap:
        figures["browser_heap_growth"] = round(_heap(watching) / heap - 1, 3)
    return figures


def _heap(page: Page | None) -> float:
    """What a page holds: the least of several looks, since updates arrive meanwhile."""
    return min(_heap_now(page) for _ in range(_LOOKS)) if page else 0.0


def _heap_now(page: Page) -> float:
    page.wait_for_timeout(1000)
    page.request_gc()
    return float(page.evaluate("performance.memory.usedJSHeapSize"))


def _watched(url: str, seconds: float) -> list[int]:
    # In a thread, since the browser's driver runs an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_watch(url, seconds))).result()


async def _watch(url: str, seconds: float) -> list[int]:
    """Let the viewers watch; the updates that each received."""
    async with aiohttp.ClientSession() as session:
        viewers = [_view(session, url, seconds) for _ in range(VIEWERS)]
        return await asyncio.gather(*viewers)


async def _view(session: aiohttp.ClientSession, url: str, seconds: float) -> int:
    topic = f"market/{EXCHANGE}/{SYMBOL}"
    counted = 0
    async with session.ws_connect(f"{url}/api/v1/live") as socket:
        await socket.send_json({"watch": [topic]})
        deadline = time.monotonic() + seconds
        async for message in socket:
            counted += message.data.startswith(f'{{"topic":"{topic}"') and '"data"' in message.data
            if time.monotonic() >= deadline:
                break
    return counted
