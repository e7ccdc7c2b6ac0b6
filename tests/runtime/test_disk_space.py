"""Jobs stop while a disk is almost full, and not before."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.config import Disk
from penstock.errors import ConfigError
from penstock.runtime.disk_space import DiskSpace, MinFree, Space, measure_space, read_min_free
from penstock.runtime.facts import DiskSpaceEnough, DiskSpaceLow
from penstock.telemetry import Fact

GB = 10**9


@pytest.mark.parametrize(
    ("texts", "least"),
    [
        (("2GB",), MinFree((2 * GB,), ())),
        (("5%",), MinFree((), (5.0,))),
        (("0.5%", "1.5 tb"), MinFree((1500 * GB,), (0.5,))),
        (("1000",), MinFree((1000,), ())),
        (("0",), MinFree((0,), ())),
        ((), MinFree()),
    ],
)
def test_the_minimum_is_a_size_or_a_share(texts: tuple[str, ...], least: MinFree) -> None:
    assert read_min_free(texts) == least


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "5 %%", "100%", "1e9", "5G", "٥GB", "nan%"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"disk\.min_free"):
        read_min_free((text,))


def test_the_default_is_small_on_every_disk() -> None:
    least = read_min_free(Disk().min_free)

    assert least.bytes_of(500 * GB) == 2 * GB
    assert least.bytes_of(20 * GB) == GB
    assert least.bytes_of(10**6) == 50_000
    assert MinFree().bytes_of(GB) == 0


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60))
async def test_jobs_stop_below_the_minimum_and_continue_clearly_above_it(free: list[int]) -> None:
    clock, facts, now = ManualClock(), list[Fact](), [0]
    disk = DiskSpace(Path("x"), MinFree((100,)), clock, facts.append, lambda _: Space(1000, now[0]))
    is_low = False
    for now[0] in free:
        is_low = now[0] < 100 or (is_low and now[0] < 125)
        assert bool(disk.shortage()) == is_low
        await clock.advance(1)

    kinds = [type(fact) for fact in facts]
    assert kinds == [DiskSpaceLow, DiskSpaceEnough] * (len(kinds) // 2) + (
        [DiskSpaceLow] if is_low else []
    )


async def test_the_disk_is_measured_once_a_second() -> None:
    clock, measured = ManualClock(), list[Path]()

    def measure(folder: Path) -> Space:
        measured.append(folder)
        return Space(1000, 10)

    disk = DiskSpace(Path("x"), MinFree((100,)), clock, measure=measure)
    for _ in range(40):
        assert disk.shortage()
        await clock.advance(0.1)

    assert len(measured) == 4


async def test_a_disk_that_cannot_be_measured_changes_nothing(tmp_path: Path) -> None:
    clock, facts = ManualClock(), list[Fact]()
    folder = tmp_path / "data"
    disk = DiskSpace(folder, MinFree((1 << 60,)), clock, facts.append)

    assert disk.shortage() == ""
    folder.mkdir()
    await clock.advance(1)
    assert "disk.min_free" in disk.shortage()
    folder.rmdir()
    await clock.advance(1)
    assert disk.shortage()
    assert len(facts) == 1
    assert measure_space(tmp_path).total > 0
