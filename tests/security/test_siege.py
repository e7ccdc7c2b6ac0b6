"""A few seconds of every attack, from one seed; tests/chaos has the long form."""

from pathlib import Path

from .siege import Siege, check


async def test_random_bytes_huge_frames_and_forged_numbers_harm_no_server_and_no_collector(
    tmp_path: Path,
) -> None:
    report = await Siege(tmp_path, seed=7).run(seconds=4)

    assert len(report["struck"]) >= 12, "hardly anything was tried"
    check(report)
