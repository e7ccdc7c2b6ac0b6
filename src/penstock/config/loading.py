"""Loads the command line, the environment and a file into one frozen Struct."""

import tomllib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Struct

from penstock.config.renamed import RENAMED, ignored, used_instead
from penstock.config.secret import Secret
from penstock.errors import ConfigError, mask_urls, near_matches

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True)
class Loaded(Generic[S]):
    """Validated settings, and the source of each value."""

    settings: S
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    """Warnings for settings that were set under an old name; see ``renamed.py``."""

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (dotted name, value with secrets masked, origin) of every setting."""
        for name, hint in setting_names(type(self.settings)).items():
            value = _value_at(self.settings, name)
            if _holds_secret(hint):
                value = "***" if value else ""
            yield name, _masked(value), self.origins.get(name, "default")


@dataclass(frozen=True)
class Alias:
    """Another variable for a setting, used if the setting's own variable is not set."""

    variable: str
    setting: str
    read: Callable[[str], str] = str
    """Converts its text to the format of the setting's own variable."""


def load(
    schema: type[S],
    environment: Mapping[str, str],
    file: Path | None = None,
    options: Mapping[str, object] | None = None,
    aliases: Sequence[Alias] = (),
) -> Loaded[S]:
    """Read and validate all settings; ``options`` are dotted names set on the command line.

    Raises:
        ConfigError: a name is unknown, a value is not allowed, or the file cannot be read.
    """
    gathered = _Gathered(setting_names(schema))
    if file is not None:
        gathered.take_file(file)
    gathered.take_environment(environment, aliases)
    for name, value in (options or {}).items():
        gathered.put(name, value, f"command line --{name.rpartition('.')[2].replace('_', '-')}")
    warnings = tuple(gathered.take_renamed())
    return Loaded(gathered.build(schema), gathered.origins, warnings)


def setting_names(root: type[Struct]) -> dict[str, Any]:
    """Return dotted name → type of every setting below ``root``, in order of declaration."""
    names: dict[str, Any] = {}
    for field, hint in get_type_hints(root, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            names.update({f"{field}.{inner}": t for inner, t in setting_names(hint).items()})
        else:
            names[field] = hint
    return names


def environment_name(dotted: str) -> str:
    """Return the variable of a setting: ``simulator.port`` → ``PENSTOCK_SIMULATOR_PORT``."""
    return "PENSTOCK_" + dotted.replace(".", "_").upper()


class _Gathered:
    """Raw values by dotted name, those of the highest precedence so far, with their origins."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.values: dict[str, object] = {}
        self.texts: set[str] = set()
        self.origins: dict[str, str] = {}
        self._renamed = {old: new for old, new in RENAMED.items() if new in names}
        self._by_old_name: dict[str, tuple[object, str, bool]] = {}
        """Old name → value, origin, and whether the value is text."""

    def put(self, name: str, value: object, origin: str) -> None:
        if name in self._renamed:
            self._by_old_name[name] = value, origin, False
            return
        if name not in self.names:
            near = near_matches(name, self.names)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError(name, problem=f"there is no such setting.{hint}", origin=origin)
        self.values[name], self.origins[name] = value, origin
        self.texts.discard(name)
        _check_tables(name, self.names[name], value, origin)

    def _put_text(self, name: str, text: str, variable: str) -> None:
        origin = f"environment {variable}"
        if name in self._renamed:
            self._by_old_name[name] = text, origin, True
            return
        self.put(name, text, origin)
        self.texts.add(name)

    def take_renamed(self) -> Iterator[str]:
        """Use values set under an old name, unless the new name is set; yield the warnings."""
        for old, (value, origin, is_text) in self._by_old_name.items():
            new = self._renamed[old]
            if new in self.values:
                yield ignored(old, origin, self.origins[new])
                continue
            self.put(new, value, f"{origin}, as {old}")
            if is_text:
                self.texts.add(new)
            yield used_instead(old, origin)

    def take_file(self, file: Path) -> None:
        try:
            tables = tomllib.loads(file.read_text())
        except OSError as error:
            raise ConfigError(
                str(file), problem=f"cannot be read: {error.strerror}.", origin="command line"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(str(file), problem=f"is not TOML: {error}.", origin="file") from error
        for name, value in _flatten(tables, self.names):
            self.put(name, value, str(file))

    def take_environment(self, environment: Mapping[str, str], aliases: Sequence[Alias]) -> None:
        for alias in aliases:
            # Containers set variables that they do not use to an empty string.
            if text := environment.get(alias.variable):
                self._put_text(alias.setting, alias.read(text), alias.variable)
        by_variable = {environment_name(name): name for name in (*self._renamed, *self.names)}
        for variable, text in environment.items():
            if variable in by_variable:
                self._put_text(by_variable[variable], text, variable)
            elif variable.startswith("PENSTOCK_") and not variable.startswith("PENSTOCK_TEST_"):
                near = near_matches(variable, map(environment_name, self.names))
                hint = f" Did you mean {' or '.join(near)}?" if near else ""
                raise ConfigError(
                    variable, problem=f"there is no such setting.{hint}", origin="environment"
                )

    def build(self, schema: type[S]) -> S:
        tree: dict[str, Any] = {}
        for name, raw in self.values.items():
            value = self._validated(name, raw)
            *sections, field = name.split(".")
            table = tree
            for section in sections:
                table = table.setdefault(section, {})
            table[field] = value
        return msgspec.convert(tree, schema, dec_hook=_decode)

    def _validated(self, name: str, raw: object) -> object:
        # A variable has only text, so text is converted to a number or a list there.
        hint, is_text = self.names[name], name in self.texts
        value = _from_text(str(raw), hint) if is_text else raw
        try:
            return msgspec.convert(value, hint, strict=not is_text, dec_hook=_decode)
        except msgspec.ValidationError as error:
            shown = "***" if _holds_secret(hint) else repr(raw)
            raise ConfigError(
                name,
                problem=f"{shown} is not allowed: {error}. Allowed: {describe(hint)}.",
                origin=self.origins[name],
            ) from error


def _check_tables(name: str, hint: Any, value: object, origin: str) -> None:
    """Reject unknown or invalid fields inside tables whose names the operator chooses."""
    struct = table_of(hint)
    if struct is None or not isinstance(value, Mapping):
        return
    fields = get_type_hints(struct, include_extras=True)
    for key, table in value.items():
        within = table if isinstance(table, Mapping) else {}
        for field, raw in within.items():
            if field not in fields:
                near = near_matches(field, fields)
                hint_ = f" Did you mean {' or '.join(near)}?" if near else ""
                problem = f"there is no such setting.{hint_}"
                raise ConfigError(f"{name}.{key}.{field}", problem=problem, origin=origin)
            try:
                msgspec.convert(raw, fields[field])
            except msgspec.ValidationError as error:
                problem = f"{raw!r} is not allowed: {error}. Allowed: {describe(fields[field])}."
                raise ConfigError(
                    f"{name}.{key}.{field}", problem=problem, origin=origin
                ) from error


def table_of(hint: Any) -> type[Struct] | None:
    """Return the type of a setting's tables, if it is a table of tables by name."""
    arguments = get_args(hint) if get_origin(hint) is dict else ()
    struct = arguments[1] if arguments else None
    return struct if isinstance(struct, type) and issubclass(struct, Struct) else None


def describe(hint: Any) -> str:
    """Return a description of a setting's type."""
    if get_origin(hint) is Annotated:
        base, *metas = get_args(hint)
        meta = metas[0]
        bounds = [("≥", meta.ge), (">", meta.gt), ("≤", meta.le), ("<", meta.lt)]
        limits = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        return f"{describe(base)} {limits}".strip()
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if get_origin(hint) is tuple:
        part = get_args(hint)[0]
        each = f", each {describe(part)}" if get_origin(part) is Literal else ""
        return f"a list, or names separated by commas{each}"
    if table_of(hint):
        return "tables, one by name"
    if get_origin(hint) is dict:
        return "a table, or name=value pairs separated by commas"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(hint) if part is not type(None))
    return {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        date: "a day",
    }.get(hint, "text")


def _decode(wanted: type, value: object) -> object:
    if isinstance(value, Secret):
        return value
    if wanted is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"expected {wanted.__name__}")


def _from_text(text: str, hint: Any) -> object:
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if get_origin(hint) is tuple:
        return parts
    if get_origin(hint) is dict and all("=" in part for part in parts):
        return {name.strip(): value.strip() for name, value in (p.split("=", 1) for p in parts)}
    return text


def _flatten(
    tables: Mapping[str, Any], names: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    for key, value in tables.items():
        if isinstance(value, Mapping) and f"{prefix}{key}" not in names:
            yield from _flatten(value, names, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value_at(settings: Struct, dotted: str) -> Any:
    value: Any = settings
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def _masked(value: Any) -> Any:
    """Return a setting's value with the credentials in URLs masked."""
    match value:
        case str():
            return mask_urls(value)
        case tuple():
            return tuple(map(_masked, value))
        case dict():
            return {key: _masked(inner) for key, inner in value.items()}
    return value


def _holds_secret(hint: Any) -> bool:
    return hint is Secret or Secret in get_args(hint)
