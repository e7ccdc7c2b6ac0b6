"""Commands that run as processes of another command."""

import asyncio
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.cli.processes import running, while_running
from penstock.errors import PenstockError


async def _for_ever(cancelled: list[bool]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.append(True)


async def test_work_is_cancelled_when_a_process_that_it_needs_is_killed(tmp_path: Path) -> None:
    cancelled: list[bool] = []
    words = ["sim", "binance", "--port", "0", "--json", "--data-dir", str(tmp_path)]
    state = {"PENSTOCK_STATE_URL": f"sqlite:{tmp_path / 'state.db'}"}
    async with running(words, state) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        process.kill()
        with pytest.raises(PenstockError, match=r"^The simulator ended early \(signal 9\); its"):
            async with asyncio.timeout(PATIENCE_S):
                await while_running({"The simulator": process}, _for_ever(cancelled))

    assert cancelled == [True]


async def test_the_result_and_the_error_of_the_work_are_passed_on(tmp_path: Path) -> None:
    async def right() -> str:
        return "done"

    async def wrong() -> str:
        raise LookupError("nothing there")

    words = ["sim", "binance", "--port", "0", "--data-dir", str(tmp_path)]
    async with running(words, {}) as process:
        assert await while_running({"The simulator": process}, right()) == "done"
        with pytest.raises(LookupError, match="nothing there"):
            await while_running({"The simulator": process}, wrong())
