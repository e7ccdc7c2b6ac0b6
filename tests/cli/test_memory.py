"""Large pieces of memory go back to the system, and what stays is left alone."""

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.cli.memory import give_back_large_pieces, keep_for_good

ROOT = Path(__file__).parents[2]
LARGE = 20_000_000
"""Bytes; more than lie free in one piece of a new process."""


class _Info(ctypes.Structure):
    """What glibc's ``mallinfo2`` tells."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


def test_large_pieces_are_had_from_the_system_one_by_one() -> None:
    # In a process of its own: in one that has run other tests so much may lie free in one piece.
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.test_memory"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    if done.stdout:
        pytest.skip(done.stdout)


def _probe() -> None:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        sys.stdout.write("this C library does not tell where its memory is")
        return
    library.mallinfo2.restype = _Info
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    # Freed once, a piece of this size is kept among the small ones from then on.
    library.free(library.malloc(LARGE))

    give_back_large_pieces()

    before = library.mallinfo2().hblks
    piece = library.malloc(LARGE)
    assert library.mallinfo2().hblks == before + 1
    library.free(piece)
    assert library.mallinfo2().hblks == before


def test_what_stays_for_good_is_searched_for_garbage_no_more() -> None:
    stays = [[number] for number in range(1000)]
    try:
        keep_for_good()

        searched = {id(each) for each in gc.get_objects()}
        assert not any(id(each) in searched for each in stays)
        assert gc.get_freeze_count() >= len(stays)
    finally:
        gc.unfreeze()


if __name__ == "__main__":
    _probe()
