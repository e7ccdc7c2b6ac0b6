"""Joins the metrics of several processes to one text, as Prometheus reads it.

Each sample of a process gets the label ``process``. Every family has its help and type once, and no
series appears twice: Prometheus would refuse the whole text.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class ProcessText(NamedTuple):
    """The metrics of one process."""

    process: str
    """Its name; empty: the samples are not labelled."""
    text: bytes


@dataclass
class _Family:
    help: str = ""
    type: str = ""
    samples: dict[str, str] = field(default_factory=dict)
    """By series: the value, and the time if there is one."""


def families(text: bytes) -> set[str]:
    """The names of the families in a text."""
    lines = text.decode().splitlines()
    return {line.split(" ", 3)[2] for line in lines if line.startswith("# TYPE ")}


def merge(texts: Iterable[ProcessText], of_fleet: Collection[str] = ()) -> bytes:
    """All texts as one.

    ``of_fleet`` are families that are known for all processes together; what a process says of them
    is left out. If two processes give a family different types, the first counts.
    """
    found: dict[str, _Family] = {}
    for process, text in texts:
        label = f'process="{_escaped(process)}"' if process else ""
        name, is_wanted = "", False
        for line in text.decode(errors="replace").split("\n"):
            if line.startswith("# "):
                _, kind, name, words, *_ = [*line.split(" ", 3), "", ""]
                family = found.setdefault(name, _Family())
                if kind == "HELP":
                    family.help = family.help or words
                else:
                    family.type = family.type or words
                    is_wanted = family.type == words and not (process and name in of_fleet)
            elif line and is_wanted:
                series, value = _labelled(line, label)
                found[name].samples.setdefault(series, value)
    return "".join(map(_written, found.items())).encode()


def _labelled(line: str, label: str) -> tuple[str, str]:
    """The series of a sample with one more label, and its value."""
    brace, space = line.find("{"), line.find(" ")
    if 0 <= brace < space:
        # A label's value may hold a brace, but after the last one there is only the value.
        end = line.rindex("}")
        name, labels, value = line[:brace], line[brace + 1 : end], line[end + 2 :]
    else:
        name, labels, value = line[:space], "", line[space + 1 :]
    joined = ",".join(filter(None, (label, labels)))
    return (f"{name}{{{joined}}}" if joined else name), value


def _written(named: tuple[str, _Family]) -> str:
    name, family = named
    lines = [f"{series} {value}\n" for series, value in family.samples.items()]
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.type}\n{''.join(lines)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
