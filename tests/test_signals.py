"""SIGHUP: caught from the first instant on, and remembered until somebody asks."""

import signal
from collections.abc import Iterator

import pytest

from penstock.signals import catch_hangups, obey_hangups, take_hangup


@pytest.fixture(autouse=True)
def as_at_the_start() -> Iterator[None]:
    """A process that nobody has told what to do about SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_ends_nothing_and_is_remembered_once() -> None:
    catch_hangups()
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL, "else this would end here"
    signal.raise_signal(signal.SIGHUP)

    assert take_hangup()
    assert not take_hangup()


def test_who_ignores_hangups_goes_on_to_do_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    catch_hangups()

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_one_that_serves_a_terminal_is_ended_by_hangups_again() -> None:
    catch_hangups()
    obey_hangups()

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
