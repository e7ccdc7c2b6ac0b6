"""The snippets of the specification for both caches, with penstock's import names."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from penstock.clock import SystemClock
from penstock.live import ProcessCache, ProcessStatus, ProcessType, TickCache
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tick() -> Ticker:
    """One that has just been received."""
    return Ticker(
        exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=SystemClock().now_ns(),
        bid_text="1", ask_text="2", last_text="1.5",
    )  # fmt: skip


async def test_the_tick_cache(tick: Ticker) -> None:
    async with TickCache() as cache:
        # Store ticker
        await cache.set_ticker(tick)

        # Retrieve ticker
        ticker = await cache.get_ticker("BTC/USDT", "sim")

    assert ticker is not None
    assert ticker.ticker == tick


async def test_the_process_cache(tick: Ticker) -> None:
    async with ProcessCache() as cache:
        # Register process
        process_id = await cache.register_process(
            process_type=ProcessType.TICK,
            component="kraken:BTC/USD",
            params={"exchange": "kraken", "symbol": "BTC/USD"},
            message="Starting collection",
            status=ProcessStatus.STARTING,
        )

        # Update process (rate-limited to 30 seconds)
        await cache.update_process(
            process_id=process_id,
            status=ProcessStatus.RUNNING,
            message=f"Received ticker at {tick.market_ms}",
        )

        # Get active processes
        processes = await cache.get_active_processes()

    [process] = processes
    assert process.process_id == process_id
    assert process.component == "kraken:BTC/USD"
    assert process.params == {"exchange": "kraken", "symbol": "BTC/USD"}
    assert process.status == ProcessStatus.RUNNING
    assert process.message.startswith("Received ticker at")


async def test_a_callback_that_opens_both_caches_for_every_tick(tick: Ticker) -> None:
    """As the specification's callback does; it is slow, but must be right."""
    async with ProcessCache() as cache:
        process_id = await cache.register_process(
            process_type=ProcessType.TICK,
            component="sim:BTC/USDT",
            params={},
            message="Starting",
            status=ProcessStatus.STARTING,
        )
    written = 0
    for _ in range(5):
        async with TickCache() as ticks:
            await ticks.set_ticker(tick)
        async with ProcessCache() as cache:
            written += await cache.update_process(
                process_id=process_id, status=ProcessStatus.RUNNING, message="Received"
            )

    assert written == 1, "STARTING to RUNNING, and then not again for 30 seconds"


async def test_the_page_of_the_docs_runs_as_printed(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "live.md"
    [code] = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)

    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await done.communicate()

    assert done.returncode == 0
    assert said.decode().splitlines()[-1] == "[('BTC/USD', Decimal('50000.0'))]"


async def test_cancelled_while_open_it_leaves_nothing_behind(tick: Ticker) -> None:
    async def hold() -> None:
        async with TickCache() as cache, cache.subscribe() as batches:
            async for _ in batches:
                pass

    task = asyncio.create_task(hold())
    async with TickCache() as cache:
        await cache.set_ticker(tick)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
