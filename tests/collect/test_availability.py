"""Whether an exchange can be asked: told once, waited for, and found to be over."""

import asyncio

from penstock.clock import ManualClock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import RequestsResumed, RequestsSuspended
from penstock.errors import ConnectorPaused, ExchangeUnreachable, StoreUnreachable
from penstock.telemetry import Fact


class Check:
    """What the store says."""

    failure: Exception | None = None

    async def __call__(self) -> None:
        if self.failure is not None:
            raise self.failure


async def test_a_pause_is_told_once_and_whoever_waits_goes_on_after_it() -> None:
    clock, check, facts, notes = ManualClock(), Check(), list[Fact](), list[str]()
    availability = RestAvailability("toy", clock, check, note=notes.append, emit=facts.append)
    running = asyncio.create_task(availability.run())
    check.failure = ConnectorPaused("toy", "paused")
    await clock.advance(2)
    waiting = asyncio.create_task(availability.resumed())
    unwanted = asyncio.create_task(availability.resumed(lambda: False))
    await clock.advance(3600)
    assert availability.suspended
    assert not waiting.done()
    assert unwanted.done()
    check.failure = StoreUnreachable("here", "locked")
    await clock.advance(2)
    check.failure = None
    await clock.advance(2)
    assert waiting.done()
    assert not availability.suspended
    assert [type(fact) for fact in facts] == [RequestsSuspended, RequestsSuspended, RequestsResumed]
    assert ["paused" in notes[0], "locked" in notes[1], notes[2]] == [True, True, ""]
    running.cancel()


def test_an_exchange_that_does_not_answer_concerns_only_who_asked() -> None:
    availability = RestAvailability("toy", ManualClock())
    assert not availability.failed(ExchangeUnreachable("gone"))
    assert not availability.suspended
    assert availability.failed(StoreUnreachable("here", "gone"))
    assert availability.suspended
