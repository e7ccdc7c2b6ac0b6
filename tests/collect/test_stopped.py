"""A process that was stopped for a while goes on with the connections it had."""

import asyncio
import signal
import sys
from pathlib import Path

from aiohttp import web

from .conftest import Listen, ToyExchange, trade_frame

SCRIPT = Path(__file__).with_name("stoppable.py")
SILENCE_S = 1.0
SECONDS_APART = 0.05


async def test_a_good_connection_outlives_a_stop_that_is_longer_than_silence_may_be(
    listen: Listen,
) -> None:
    sent = 0

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        nonlocal sent
        while not socket.closed:
            sent += 1
            await socket.send_str(trade_frame(sent))
            await asyncio.sleep(SECONDS_APART)

    exchange = ToyExchange(behave)
    await listen(exchange)
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, exchange.url, str(SILENCE_S), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        lines = list[str]()
        lines.append((await process.stdout.readline()).decode().strip())
        process.send_signal(signal.SIGSTOP)
        missed = sent + 3 * SILENCE_S / SECONDS_APART
        while sent < missed:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(SECONDS_APART)
        process.send_signal(signal.SIGCONT)
        while f"trade {sent}" not in lines:  # until it has read all that came meanwhile
            lines.append((await process.stdout.readline()).decode().strip())
    finally:
        process.kill()
        await process.wait()

    assert lines == [f"trade {number}" for number in range(1, len(lines) + 1)]
    assert len(exchange.connected_at_s) == 1
