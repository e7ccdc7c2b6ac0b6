"""Imports the modules of commands on first use: importing all of them takes a second."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import MarkupMode

from penstock.signals import INTERRUPTED


class LazyCommands(Mapping[str, Any]):
    """Commands by name. Each is a function or a Typer, named as its module in ``penstock.cli``."""

    def __init__(self, names: Sequence[str], markup: MarkupMode) -> None:
        self._names, self._markup = names, markup
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Any:
        try:
            found = getattr(import_module(f"penstock.cli.{name}"), name)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        parent = typer.Typer(rich_markup_mode=self._markup)
        parent.callback()(_nothing)  # so that it is a group, however few commands it has
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            parent.command(name)(found)
        return typer.main.get_group(parent).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _nothing() -> None: ...
