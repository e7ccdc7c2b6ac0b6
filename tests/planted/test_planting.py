"""Planted bugs fit the code as it is, and a bug that no test sees is called missed."""

from pathlib import Path

import pytest
from tests.planted.planting import Bug, Copy, PatchInvalid, bugs, check_fits

PATCH = """\
Answers wrongly.
tests: tests/test_it.py

--- a/src/it.py
+++ b/src/it.py
@@ -1 +1 @@
-ANSWER = 42
+ANSWER = 41
"""


def test_every_planted_bug_fits_the_code() -> None:
    for bug in bugs():
        check_fits(bug)


def test_every_planted_bug_names_parameters_that_exist(request: pytest.FixtureRequest) -> None:
    collected = {item.nodeid for item in request.session.items}
    functions = {name.partition("[")[0] for name in collected}
    named = {test for bug in bugs() for test in bug.tests if "[" in test}

    assert not {test for test in named - collected if test.partition("[")[0] in functions}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, with a test that looks at it and one that does not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # its tests need no plugin
    for name, text in {
        "src/it.py": "ANSWER = 42\n",
        "tests/test_it.py": "import it\n\ndef test_it():\n    assert it.ANSWER == 42\n",
        "tests/test_other.py": "def test_other():\n    pass\n",
        "tests/test_broken.py": "import nothing_of_this_name\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    (tmp_path / "wrong.patch").write_text(PATCH)
    return tmp_path / "wrong.patch"


def test_a_bug_is_caught_if_its_tests_fail_and_missed_if_not(tree: Path, patch: Path) -> None:
    copy = Copy(tree / "copy", tree)

    assert copy.judge(Bug("wrong", "", ("tests/test_it.py",), patch)).caught
    assert not copy.judge(Bug("wrong", "", ("tests/test_other.py",), patch)).caught
    # It was taken out again, and never was in the tree itself.
    assert copy.run(("tests/test_it.py",)).returncode == 0
    assert (tree / "src/it.py").read_text() == "ANSWER = 42\n"


def test_tests_that_cannot_run_catch_nothing(tree: Path, patch: Path) -> None:
    with pytest.raises(PatchInvalid, match="cannot be run"):
        Copy(tree / "copy", tree).judge(Bug("wrong", "", ("tests/test_broken.py",), patch))


def test_a_patch_that_no_longer_fits_is_told(tree: Path, patch: Path) -> None:
    (tree / "src/it.py").write_text("ANSWER = 43\n")

    with pytest.raises(PatchInvalid, match="does not fit"):
        check_fits(Bug("wrong", "", ("tests/test_it.py::test_it",), patch), tree)


@pytest.mark.parametrize("test", ["tests/test_it.py::test_was_renamed", "tests/gone.py::test_it"])
def test_a_test_that_is_gone_is_told(test: str, tree: Path, patch: Path) -> None:
    with pytest.raises(PatchInvalid, match="there is no test"):
        check_fits(Bug("wrong", "", (test,), patch), tree)
