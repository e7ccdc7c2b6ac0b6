"""Dates in HTTP are UTC, wherever the machine that reads them is."""

import time
from collections.abc import Iterator

import pytest

from penstock.exchanges.gateway import _date_ms as gateway_date_ms
from penstock.exchanges.transport import Answer
from penstock.throttled.binance.throttler import _date_ms as throttler_date_ms

NOON_MS = 1_763_380_800_000


@pytest.fixture(params=["UTC", "Asia/Seoul", "America/New_York", "XYZ-13:45"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock shows another time of day."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("Mon, 17 Nov 2025 12:00:00 GMT", NOON_MS),
        ("Mon, 17 Nov 2025 12:00:00 -0000", NOON_MS),
        ("Mon, 17 Nov 2025 12:00:00", NOON_MS),
        ("Mon, 17 Nov 2025 13:00:00 +0100", NOON_MS),
        ("soon", None),
        ("Mon, 99 Nov 2025 12:00:00 GMT", None),
        ("", None),
    ],
)
@pytest.mark.usefixtures("zone")
def test_a_date_is_the_same_instant_in_every_zone(text: str, at_ms: int | None) -> None:
    assert gateway_date_ms(Answer(200, {"date": text}, b"")) == at_ms
    assert throttler_date_ms({"Date": text}) == at_ms
