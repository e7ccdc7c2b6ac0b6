"""Compiles the extension `penstock.compiled._hot`: a part of the build hook, and a command.

The compiler is that of the environment variable CC, else the machine's (cc, gcc, clang), else the
one in the wheel `ziglang` from PyPI, which is then a requirement of the build. Where there is none,
or compiling fails, penstock runs on its Python code, with the same results.

Usage: scripts/compile_hot.py             compile, unless it is compiled already
       scripts/compile_hot.py --requires  print what has to be installed for that
       scripts/compile_hot.py --sanitize FOLDER
                                          compile into a folder, with the checks of gcc and clang
"""

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path("src/penstock/compiled")
NAME = "_hot.abi3.so"
WHEEL_TAG = "cp311-abi3"
"""Compiled for the stable interface of Python 3.11: one file for this and all later versions."""
_FROM_PYPI = "ziglang==0.17.0"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing"),
    *("-DNDEBUG", "-DPy_LIMITED_API=0x030B0000"),
)
_WARNINGS = ("-Wall", "-Wextra", "-Wno-cast-function-type")
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-UNDEBUG")
# zig links with symbols of the oldest glibc that wheels of this kind are made for.
_ZIG_TARGETS = {"x86_64": "x86_64-linux-gnu.2.17", "aarch64": "aarch64-linux-gnu.2.17"}
_COMPILE_S = 300


class NotCompiled(Exception):
    """There is no compiler, or it failed."""


def is_current(root: Path) -> bool:
    """Whether the extension is there, and compiled from these sources for this machine."""
    try:
        return _digest(root).encode() in (root / FOLDER / NAME).read_bytes()
    except OSError:
        return False


def compile_missing(root: Path) -> bool:
    """Compile the extension, unless it is current; return whether it was compiled.

    Raises:
        NotCompiled: that is not possible here. An outdated extension is removed.
    """
    if is_current(root):
        return False
    target = root / FOLDER / NAME
    try:
        target.unlink(missing_ok=True)
        if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.implementation.name != "cpython":
            raise NotCompiled("This Python does not load extensions of the stable interface.")
        compile_to(root, target)
    except OSError as error:
        raise NotCompiled(f"The file cannot be written: {error}.") from None
    return True


def compile_to(root: Path, target: Path, *, sanitize: bool = False) -> None:
    """Compile the extension into a file.

    Raises:
        NotCompiled: that is not possible here.
    """
    compiler = _compiler()
    if compiler is None:
        raise NotCompiled(f"There is no C compiler: install one, or `pip install {_FROM_PYPI}`.")
    flags = [*_FLAGS, *_WARNINGS, *(_SANITIZED if sanitize else ("-s",))]
    if sys.platform == "darwin":
        flags = [*(flag for flag in flags if flag != "-s"), "-undefined", "dynamic_lookup"]
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / NAME
        command = [*compiler, *flags, f'-DSOURCES="{_digest(root)}"']
        headers = Path(sysconfig.get_path("include"))
        # Debian's headers include one by its path from the folder above, which zig does not search.
        command += [f"-I{headers}", "-idirafter", str(headers.parent), "-o", str(made)]
        command += [str(root / FOLDER / name) for name in _sources(root) if name.endswith(".c")]
        environment = {"ZIG_GLOBAL_CACHE_DIR": place, "ZIG_LOCAL_CACHE_DIR": place} | os.environ
        try:
            done = subprocess.run(  # noqa: S603 (the compiler)
                command, capture_output=True, text=True, timeout=_COMPILE_S, check=False,
                env=environment,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotCompiled(f"{compiler[0]} failed: {error}.") from None
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line]
            raise NotCompiled(f"{compiler[0]} failed: {(said or ['it does not say why'])[0]}.")
        # Moved, not written: a running process may have the old file mapped.
        new = target.with_suffix(f".{os.getpid()}.new")
        shutil.copy(made, new)
        new.replace(target)


def requirements(root: Path) -> list[str]:
    """Return what has to be installed to compile: nothing if there is a compiler."""
    return [] if is_current(root) or _compiler() is not None else [_FROM_PYPI]


def wheel_tag() -> str:
    """The tag of a wheel that has the extension."""
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if _uses_zig() and platform.machine() in _ZIG_TARGETS:
        machine = f"manylinux_2_17_{platform.machine()}"
    return f"{WHEEL_TAG}-{machine}"


def notice(error: NotCompiled) -> str:
    """What to say where the extension could not be compiled."""
    return (
        f"The compiled hot path is missing: {error}\n"
        "penstock works without it, more slowly. To have it, see that a C compiler and Python's"
        " headers are installed,\nthen run `python scripts/compile_hot.py`."
    )


def _compiler() -> list[str] | None:
    """The command that compiles, if there is one."""
    if chosen := os.environ.get("CC", "").strip():
        try:
            return shlex.split(chosen)
        except ValueError:
            return [chosen]
    for name in _COMPILERS:
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        is_glibc = platform.libc_ver()[0] == "glibc"
        target = _ZIG_TARGETS.get(platform.machine()) if is_glibc else None
        return [sys.executable, "-m", "ziglang", "cc", *(("-target", target) if target else ())]
    return None


def _uses_zig() -> bool:
    command = _compiler()
    return command is not None and "ziglang" in command and "-target" in command


def _sources(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FOLDER).iterdir() if path.suffix in (".c", ".h"))


def _digest(root: Path) -> str:
    made_for = sysconfig.get_platform(), platform.libc_ver()[0], _uses_zig()
    whole = hashlib.sha256(repr((_FLAGS, made_for)).encode())
    for name in _sources(root):
        whole.update((root / FOLDER / name).read_bytes())
    return whole.hexdigest()


def main(arguments: list[str]) -> None:
    """Run the command."""
    root = Path(__file__).resolve().parent.parent
    if arguments == ["--requires"]:
        sys.stdout.write("".join(f"{each}\n" for each in requirements(root)))
        return
    try:
        if arguments[:1] == ["--sanitize"]:
            compile_to(root, Path(arguments[1]) / NAME, sanitize=True)
        else:
            compile_missing(root)
    except NotCompiled as error:
        raise SystemExit(notice(error)) from None


if __name__ == "__main__":
    main(sys.argv[1:])
