"""The settings of a process: values with secrets masked, and where each comes from."""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

from msgspec import Struct

from penstock.config import Loaded, Settings, field_notes, is_section


class SettingView(Struct, frozen=True, kw_only=True):
    """One setting."""

    name: str
    value: Any
    """With secrets and passwords masked."""
    origin: str
    """``default``, a file, a variable or an option of the command line."""
    masked: bool
    """Whether a part of the value is not shown."""
    doc: str


class Config(Struct, frozen=True, kw_only=True):
    """All settings of the process that serves the API."""

    items: list[SettingView]


def config_of(loaded: Loaded[Settings]) -> Config:
    """All settings, as ``penstock config show`` has them."""
    notes = _notes()
    return Config(
        items=[
            SettingView(
                name=name,
                value=value,
                origin=origin,
                masked=loaded.hides(name),
                doc=notes.get(name, ""),
            )
            for name, value, origin in loaded.rows()
        ]
    )


@cache
def _notes() -> dict[str, str]:
    # Cached: they are read from the source.
    return dict(_notes_below(Settings, ""))


def _notes_below(section: type[Struct], prefix: str) -> Iterator[tuple[str, str]]:
    yield from ((prefix + name, note) for name, note in field_notes(section).items())
    for name, hint in get_type_hints(section).items():
        if is_section(hint):
            yield from _notes_below(hint, f"{prefix}{name}.")
