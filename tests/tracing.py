"""What a process asks of the disk, in order: its system calls as strace tells them."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_CALLS = (
    "openat,close,write,pwrite64,writev,ftruncate,fsync,fdatasync,"
    "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat"
)
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$", re.DOTALL)
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$", re.DOTALL)


class Call(NamedTuple):
    """One system call that went well."""

    name: str
    words: str
    """Its arguments, as strace writes them."""
    result: int


def why_not() -> str:
    """Why nothing can be watched here; "" if it can."""
    if shutil.which("strace") is None:
        return "watching system calls needs strace"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "strace may not trace processes here"


def command(output: Path, words: Sequence[str]) -> list[str]:
    """A command, watched; what it writes is written down whole."""
    return [
        "strace", "-f", "--seccomp-bpf", "-q", "-xx", "-s", "10000000", "-e", f"trace={_CALLS}",
        "-e", "signal=none", "-o", str(output), *words,
    ]  # fmt: skip


def watched(output: Path, words: Sequence[str], environment: Mapping[str, str]) -> list[Call]:
    """Run a command to its end; what it asked of the disk."""
    subprocess.run(command(output, words), env=environment, check=True, capture_output=True)
    return read(output)


def read(output: Path) -> list[Call]:
    """The calls of a trace that went well, in the order in which they ended."""
    begun: dict[str, str] = {}
    calls: list[Call] = []
    for line in output.read_text().splitlines():
        if unfinished := _UNFINISHED.match(line):
            begun[unfinished[1]] = unfinished[2]
            name, _, words = unfinished[2].partition("(")
            if name in ("fsync", "fdatasync"):
                # What is written from now on it need not sync.
                calls.append(Call("begins_to_sync", words, 0))
            elif name == "close":
                # Its number may be another's before it ends.
                calls.append(Call("close", words, 0))
                begun[unfinished[1]] = ""
            continue
        if resumed := _RESUMED.match(line):
            line = begun.pop(resumed[1], "") + resumed[2]  # noqa: PLW2901
        found = _LINE.match(line)
        if found and int(found[3]) >= 0:
            calls.append(Call(found[1], found[2], int(found[3])))
    return calls


_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def texts(call: Call) -> list[bytes]:
    """The texts among its arguments."""
    return [bytes.fromhex(found.replace("\\x", "")) for found in _TEXT.findall(call.words)]


def descriptor(call: Call) -> int:
    """Its first argument, where that is an open file."""
    return int(call.words.split(",", 1)[0])
