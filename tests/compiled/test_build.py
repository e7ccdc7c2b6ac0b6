"""The extension is optional: whatever goes wrong when it is built, the installation goes on."""

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hot() -> ModuleType:
    """The script that compiles."""
    place = ROOT / "scripts" / "compile_hot.py"
    spec = importlib.util.spec_from_file_location("compile_hot", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, hot: ModuleType) -> Path:
    """A tree with the sources, in which nothing is compiled."""
    folder = tmp_path / hot.FOLDER
    folder.mkdir(parents=True)
    for path in (ROOT / hot.FOLDER).iterdir():
        if path.suffix in (".c", ".h"):
            (folder / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize("compiler", ['gcc "', "no-such-compiler", "false"])
def test_a_compiler_that_fails_is_told(
    compiler: str, hot: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(hot.NotCompiled, match="failed"):
        hot.compile_missing(checkout)


def test_an_empty_choice_is_none(hot: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    without = hot._compiler()
    monkeypatch.setenv("CC", " ")

    assert hot._compiler() == without


def test_a_file_that_cannot_be_replaced_is_told(hot: ModuleType, checkout: Path) -> None:
    (checkout / hot.FOLDER / hot.NAME).mkdir()
    with pytest.raises(hot.NotCompiled, match="cannot be written"):
        hot.compile_missing(checkout)


def test_a_file_for_another_machine_is_not_used(
    hot: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkout / hot.FOLDER / hot.NAME
    made.write_text(hot._digest(checkout))
    assert hot.is_current(checkout)
    monkeypatch.setattr(hot.sysconfig, "get_platform", lambda: "macosx-14.0-arm64")

    assert not hot.is_current(checkout)


def test_headers_that_include_one_from_the_folder_above_are_found(
    hot: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian's do; the compiler from PyPI does not search the machine's folders."""
    if hot._compiler() is None:
        pytest.skip("there is no compiler")
    real, apart = Path(sysconfig.get_path("include")), tmp_path / "for-this-machine" / "pyconfig.h"
    headers = tmp_path / "python"
    headers.mkdir()
    apart.parent.mkdir()
    for path in real.iterdir():
        (headers / path.name).symlink_to(path)
    (headers / "pyconfig.h").unlink()
    (headers / "pyconfig.h").write_text("#include <for-this-machine/pyconfig.h>\n")
    apart.symlink_to(sysconfig.get_config_h_filename())
    monkeypatch.setattr(hot.sysconfig, "get_path", lambda _: str(headers))

    hot.compile_to(ROOT, tmp_path / hot.NAME)

    assert (tmp_path / hot.NAME).stat().st_size
