"""The text of a new settings file: every setting, commented out, with its default.

A line that begins with ``#`` and a space is text; one without the space is a setting. So any of
them, or all, can be uncommented.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from msgspec import Struct

from penstock.config.schema import (
    describe,
    environment_name,
    field_notes,
    is_section,
    table_of,
)
from penstock.config.secret import Secret, is_secret
from penstock.config.settings import Settings

_WIDTH = 98
_FIRST: Mapping[str, Sequence[str]] = {
    "up": ("exchanges", "symbols"),
    "collect": ("data_dir", "channels"),
    "connectors": (),
    "state": ("url",),
    "live": ("url",),
    "api": ("host", "port", "token"),
    "logging": ("level",),
}
"""The settings that most users change: these sections come first, with these settings on top."""
_HEAD = """\
# Settings of penstock. Every setting is here with its default: remove the # before those that you
# change. `penstock config show --origin` shows what applies, `penstock config check` finds
# mistakes. A variable of the environment overrides this file: [collect] data_dir is
# PENSTOCK_COLLECT_DATA_DIR. Secrets are not read from this file: see docs/configuration.md.
"""


def template() -> str:
    """Return the text of a settings file in which nothing is set."""
    hints = get_type_hints(Settings, include_extras=True)
    others = [section for section in hints if section not in _FIRST]
    lines = [_HEAD]
    for section in (*_FIRST, *others):
        lines += _section(section, hints[section], _FIRST.get(section, ()))
    return "\n".join(lines)


def _section(name: str, hint: Any, first: Sequence[str] = ()) -> Iterator[str]:
    table = table_of(hint)
    struct: type[Struct] = table or hint
    fields = get_type_hints(struct, include_extras=True)
    title = f"{name}.NAME" if table else name
    yield from _text(inspect.cleandoc(struct.__doc__ or "").splitlines()[0])
    if table:
        yield from _text("Remove the # of the next line too, and write the name in place of NAME.")
    # An empty table of those that an operator names would already have an effect.
    yield f"#[{title}]" if table else f"[{title}]"
    yield ""
    defaults, notes = struct(), field_notes(struct)
    for field in (*first, *(each for each in fields if each not in first)):
        if not _has_table(fields[field]):
            note = f"{notes[field]}{_allowed(fields[field])}"
            yield from _setting(f"{name}.{field}", note, fields[field], getattr(defaults, field))
            yield ""
    for field, inner in fields.items():
        if _has_table(inner):
            yield from _section(f"{name}.{field}", inner)


def _has_table(hint: Any) -> bool:
    return is_section(hint) or table_of(hint) is not None


def _setting(name: str, note: str, hint: Any, default: object) -> Iterator[str]:
    field = name.rpartition(".")[2]
    yield from _text(note if default is not None else f"{field}: {note}")
    if is_secret(hint):
        yield from _text(f"Set {environment_name(name)}, or name a file with nothing else in it:")
        yield f"#{field}_file = {_value('' if isinstance(default, Secret) else {})}"
    elif default is not None:
        yield f"#{field} = {_value(default)}"


def _allowed(hint: Any) -> str:
    """The allowed values, where the default does not tell them."""
    words = describe(hint)
    return f" ({words})" if re.search(r"[<>≤≥]|one of", words) else ""


def _text(text: str) -> list[str]:
    plain = text.replace("``", "`")
    return textwrap.wrap(
        plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{_value(k)} = {_value(v)}' for k, v in value.items())}}}"
    return json.dumps(str(value), ensure_ascii=False)
