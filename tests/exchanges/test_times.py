"""Times: every digit an exchange tells is kept, and what is no time is refused."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import ValidationError

from penstock.exchanges.times import LATEST_NS, SECOND_NS, epoch_ns

instants = st.integers(0, LATEST_NS)


def spelled(at_ns: int, digits: int, zone: timezone = UTC) -> str:
    """An instant with so many digits of its second, in a zone's time."""
    seconds, fraction = divmod(at_ns, SECOND_NS)
    civil = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)
    point = f".{fraction:09}"[: digits + 1] if digits else ""
    offset = "Z" if zone is UTC else civil.isoformat()[19:]
    return civil.isoformat()[:19] + point + offset


@given(instants, st.integers(0, 9))
@example(LATEST_NS, 9)
@example(0, 0)
def test_an_instant_of_any_number_of_digits_comes_back(at_ns: int, digits: int) -> None:
    told_ns = at_ns // 10 ** (9 - digits) * 10 ** (9 - digits)

    for _ in range(2):  # the second time its second is known
        assert epoch_ns(spelled(at_ns, digits)) == told_ns


@given(st.integers(86_400 * SECOND_NS, LATEST_NS - 86_400 * SECOND_NS), st.integers(-1439, 1439))
def test_an_offset_names_the_same_instant(at_ns: int, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))

    assert epoch_ns(spelled(at_ns, 9, zone)) == at_ns


@given(st.lists(instants, min_size=1, max_size=50), st.integers(1, 9))
def test_the_order_of_times_does_not_depend_on_what_was_read_before(
    told: list[int], digits: int
) -> None:
    texts = [spelled(at_ns, digits) for at_ns in told]

    assert [epoch_ns(text) for text in texts] == [epoch_ns(text) for text in reversed(texts)][::-1]


@pytest.mark.parametrize(
    ("text", "at_ns"),
    [
        ("2023-09-25T07:49:37.708706Z", 1_695_628_177_708_706_000),
        ("2023-10-04T16:25:00.000000001Z", 1_696_436_700_000_000_001),
        ("2026-01-07T23:47:25.201Z", 1_767_829_645_201_000_000),
        ("2025-11-11T00:17:10Z", 1_762_820_230_000_000_000),
        ("2025-11-11 00:17:10z", 1_762_820_230_000_000_000),
        ("2025-11-11T09:17:10.5+09:00", 1_762_820_230_500_000_000),
        ("2025-11-10T23:47:10.5-00:30", 1_762_820_230_500_000_000),
        ("2262-04-11T23:47:16.854775807Z", LATEST_NS),
    ],
)
def test_times_as_exchanges_write_them(text: str, at_ns: int) -> None:
    assert epoch_ns(text) == at_ns


KNOWN = "2023-09-25T07:49:37."


@pytest.mark.parametrize(
    "text",
    [
        "", "Z", "x", "2023-09-25", "2023-09-25T07:49:37", "2023-09-25T07:49Z",
        "2023-02-29T00:00:00Z", "2023-09-25T24:00:00Z", "2023-09-25T07:60:00Z",
        "2023-09-25T07:49:60Z", "2023-09-25T07:49:37.Z", "2023-09-25T07:49:37.1234567890Z",
        "2023-09-25T07:49:37+24:00", "2023-09-25T07:49:37+00:60", "2023-09-25T07:49:37+0000",
        " 2023-09-25T07:49:37Z", "2023-09-25T07:49:37Z ", "1969-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
        "2262-04-11T23:47:16.854775808Z", "2262-04-11T23:47:17.0Z",
        *(KNOWN + rest for rest in (
            "1", "+1Z", "-1Z", "1_0Z", " 1Z", "1 Z", "1.0Z", "1e3Z", "٣Z", "²Z", "1ZZ",
            "1234567890Z", "12\x00Z", "1+25:00",
        )),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    epoch_ns(KNOWN + "5Z")

    with pytest.raises(ValidationError):
        epoch_ns(text)


@given(st.text(max_size=40) | st.text(max_size=12).map(lambda rest: KNOWN + rest))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        at_ns = epoch_ns(text)
    except ValidationError:
        return
    assert 0 <= at_ns <= LATEST_NS


def test_so_many_seconds_that_some_are_forgotten_are_read_all_the_same() -> None:
    seconds = range(1_700_000_000, 1_700_002_500)

    for _ in range(2):
        assert [epoch_ns(spelled(s * SECOND_NS + 7, 9)) for s in seconds] == [
            s * SECOND_NS + 7 for s in seconds
        ]
