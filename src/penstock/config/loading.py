"""Loads the command line, the environment and a file into one frozen Struct."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from penstock import compiled
from penstock.config.renamed import RENAMED, ignored, used_instead
from penstock.config.schema import (
    describe,
    environment_name,
    in_file_names,
    setting_names,
    table_of,
)
from penstock.config.secret import (
    InFile,
    Secret,
    is_readable_by_all,
    is_secret,
    is_secret_name,
    masked,
    may_be_in_file,
    secrets_in,
)
from penstock.errors import ConfigError, near_matches
from penstock.errors import hint as hint_of

S = TypeVar("S", bound=Struct)
_NOT_SETTINGS = ("PENSTOCK_TEST_", compiled.VARIABLE)


@dataclass(frozen=True)
class Loaded(Generic[S]):
    """Validated settings, and the source of each value."""

    settings: S
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    """Warnings about old names (``renamed.py``) and about files with secrets that all may read."""

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (dotted name, value with secrets masked, origin) of every setting."""
        for name, hint in setting_names(type(self.settings)).items():
            value = _value_at(self.settings, name)
            if is_secret(hint):
                value = "***" if value else ""
            yield name, masked(value), self.origins.get(name, "default")

    def hides(self, name: str) -> bool:
        """Whether a part of a setting's value is not in its row."""
        return any(secrets_in(_value_at(self.settings, name)))

    def secrets(self) -> Iterator[str]:
        """Yield every secret among the values, and every password in a URL."""
        for name in setting_names(type(self.settings)):
            yield from secrets_in(_value_at(self.settings, name))


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
    renamed = tuple(gathered.take_renamed())
    settings = gathered.build(schema)
    return Loaded(settings, gathered.origins, (*renamed, *gathered.warnings))


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
        self._in_file = in_file_names(names)
        self.warnings: list[str] = []

    def put(self, name: str, value: object, origin: str) -> None:
        if name in self._renamed:
            self._by_old_name[name] = value, origin, False
            return
        if name in self._in_file:
            self._put_file(self._in_file[name], value, f"{origin}, as {name}")
            return
        if name not in self.names:
            raise _unknown(name, (*self.names, *self._in_file), origin)
        self.values[name], self.origins[name] = value, origin
        self.texts.discard(name)
        _check_tables(name, self.names[name], value, origin)

    def _put_text(self, name: str, text: str, variable: str) -> None:
        origin = f"environment {variable}"
        if name in self._renamed:
            self._by_old_name[name] = text, origin, True
        elif name in self._in_file:
            setting = self._in_file[name]
            self._put_file(setting, _from_text(text, self.names[setting]), origin)
        elif table_of(self.names[name]):
            self.put(name, _tables_from_text(name, text, origin), origin)
        else:
            self.put(name, text, origin)
            self.texts.add(name)

    def _put_file(self, setting: str, place: object, origin: str) -> None:
        if not place:
            return
        is_table = get_origin(self.names[setting]) is dict
        wanted: Any = dict[str, str] if is_table else str
        try:
            self.values[setting] = InFile(msgspec.convert(place, wanted))
        except msgspec.ValidationError as error:
            shape = "a table of files" if is_table else "the name of a file"
            problem = f"is read from a file: expected {shape}."
            raise ConfigError(setting, problem=problem, origin=origin) from error
        self.origins[setting] = origin
        self.texts.discard(setting)

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
        with_password = []
        for name, value in _flatten(tables, self.names, str(file)):
            self._refuse_secret(name, value, str(file))
            self.put(name, value, str(file))
            if name in self.names and masked(value) != value:
                with_password.append(name)
        if with_password and is_readable_by_all(file):
            self.warnings.append(
                f"{file} contains a password ({', '.join(with_password)}) and every user may read"
                f" it: run chmod o-r {file}, or set {environment_name(with_password[0])}."
            )

    def _refuse_secret(self, name: str, value: object, origin: str) -> None:
        hint = self.names.get(name)
        found = name if is_secret(hint) and value else ""
        if isinstance(value, Mapping) and may_be_in_file(hint):
            found = next((f"{name}.{key}" for key in value if is_secret_name(key)), found)
        if found:
            variable = environment_name(name)
            raise ConfigError(
                found,
                problem="a secret is not read from the settings file, which others may see. Set"
                f" {variable}, or {variable}_FILE or {name}_file to a file with nothing else.",
                origin=origin,
            )

    def take_environment(self, environment: Mapping[str, str], aliases: Sequence[Alias]) -> None:
        of_settings = (*self._renamed, *self.names, *self._in_file)
        by_variable = {environment_name(name): name for name in of_settings}
        _check_once({*by_variable, *(alias.variable for alias in aliases)}, environment)
        for alias in aliases:
            # Containers set variables that they do not use to an empty string.
            if text := environment.get(alias.variable):
                self._put_text(alias.setting, alias.read(text), alias.variable)
        for variable, text in environment.items():
            if variable in by_variable:
                if text or not environment.get(f"{variable}_FILE"):
                    self._put_text(by_variable[variable], text, variable)
            elif variable.startswith("PENSTOCK_") and not variable.startswith(_NOT_SETTINGS):
                known = map(environment_name, (*self.names, *self._in_file))
                raise _unknown(variable, known, "environment")

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
        if isinstance(raw, InFile):
            raw = self._read(name, raw)
        value = _from_text(str(raw), hint) if is_text else raw
        try:
            return msgspec.convert(value, hint, strict=not is_text, dec_hook=_decode)
        except msgspec.ValidationError as error:
            shown = "***" if may_be_in_file(hint) else repr(raw)
            raise ConfigError(
                name,
                problem=f"{shown} is not allowed: {error}. Allowed: {describe(hint)}.",
                origin=self.origins[name],
            ) from error

    def _read(self, name: str, where: InFile) -> object:
        try:
            found = where.read()
        except ValueError as error:
            raise ConfigError(name, problem=f"{error}.", origin=self.origins[name]) from error
        for file in filter(is_readable_by_all, where.files()):
            self.warnings.append(
                f"{file}, which contains {name}, may be read by every user: run chmod o-r {file}."
            )
        return found


def _unknown(name: str, known: Iterable[str], origin: str) -> ConfigError:
    problem = f"there is no such setting.{hint_of(near_matches(name, known))}"
    return ConfigError(name, problem=problem, origin=origin)


def _check_once(known: Set[str], environment: Mapping[str, str]) -> None:
    for variable in known:
        file = f"{variable}_FILE"
        if file in known and environment.get(file) and environment.get(variable):
            problem = f"{file} is set too. Unset one of them."
            raise ConfigError(variable, problem=problem, origin="environment")


def _check_tables(name: str, hint: Any, value: object, origin: str) -> None:
    """Reject unknown or invalid fields inside tables whose names the operator chooses."""
    struct = table_of(hint)
    if struct is None or not isinstance(value, Mapping):
        return
    fields = get_type_hints(struct, include_extras=True)
    for key, table in value.items():
        if not isinstance(table, Mapping):
            problem = f"is not a table. Write settings below [{name}.NAME]."
            raise ConfigError(f"{name}.{key}", problem=problem, origin=origin)
        for field, raw in table.items():
            if field not in fields:
                problem = f"there is no such setting.{hint_of(near_matches(field, fields))}"
                raise ConfigError(f"{name}.{key}.{field}", problem=problem, origin=origin)
            try:
                msgspec.convert(raw, fields[field])
            except msgspec.ValidationError as error:
                problem = f"{raw!r} is not allowed: {error}. Allowed: {describe(fields[field])}."
                raise ConfigError(
                    f"{name}.{key}.{field}", problem=problem, origin=origin
                ) from error


def _decode(wanted: type, value: object) -> object:
    if isinstance(value, Secret):
        return value
    if wanted is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"expected {wanted.__name__}")


def _from_text(text: str, hint: Any) -> object:
    kind = get_origin(hint)
    if kind in (tuple, dict) and text.lstrip()[:1] in ("[", "{"):
        # Names and values with a comma or "=" in them need JSON.
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is tuple:
        return parts
    if kind is dict and all("=" in part for part in parts):
        return {name.strip(): value.strip() for name, value in (p.split("=", 1) for p in parts)}
    return text


def _tables_from_text(name: str, text: str, origin: str) -> object:
    try:
        return msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError as error:
        problem = f'is not JSON: {error}. Expected {{"NAME": {{"setting": value}}}}.'
        raise ConfigError(name, problem=problem, origin=origin) from error


def _flatten(
    tables: Mapping[str, Any], names: Mapping[str, Any], origin: str, prefix: str = ""
) -> Iterator[tuple[str, object]]:
    sections = {name[: at + 1] for name in names for at, char in enumerate(name) if char == "."}
    in_file = in_file_names(names)
    for key, value in tables.items():
        name = f"{prefix}{key}"
        is_section = f"{name}." in sections
        if isinstance(value, Mapping) and name not in names and name not in in_file:
            if not is_section:
                near = near_matches(name, [each.rstrip(".") for each in sections])
                problem = f"there is no such section.{hint_of(near)}"
                raise ConfigError(f"[{name}]", problem=problem, origin=origin)
            yield from _flatten(value, names, origin, f"{name}.")
        elif is_section:
            problem = f"is a section: write its settings below [{name}]."
            raise ConfigError(name, problem=problem, origin=origin)
        else:
            yield name, value


def _value_at(settings: Struct, dotted: str) -> Any:
    value: Any = settings
    for part in dotted.split("."):
        value = getattr(value, part)
    return value
