"""Configuration: everything an operator may set, read once and validated whole.

Values come, strongest first, from the command line, the environment
(``PENSTOCK_<SECTION>_<FIELD>``) and ``penstock.toml``; the defaults stand here. The result is one
frozen Struct and a record of where every value came from. An unknown name or a bad value is an
error that says what, where it was set and what is allowed, before anything has started.
"""

import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from msgspec import Meta, Struct

from penstock.errors import ConfigError, near_matches

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]


class Secret(str):
    """A text that never shows itself: its repr, and so every log and traceback, is a mask."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What penstock writes about itself, on stderr."""

    format: Literal["auto", "human", "json"] = "auto"
    """``human`` lines, ``json`` lines, or ``auto``: human on a terminal, json elsewhere."""


class Simulator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The built-in exchange to practise on."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8790
    """Port to listen on; 0 takes any free one and says which."""
    seed: Whole = 1
    """The market is a pure function of this number: same seed, same trades, on every machine."""
    symbols: tuple[str, ...] = ("btc_usdt", "eth_usdt", "bnb_usdt")
    """Markets to list, as slugs or unified names; ``all`` lists the whole catalogue."""
    faults: str = ""
    """Faults to inject, such as ``drop=0.01,cut=5s``; see docs/simulator.md."""
    fault_seed: Whole = 1
    """Which faults strike which frame is a pure function of this number."""
    weight_limit: Count = 6000
    """REQUEST_WEIGHT allowed per window and address."""
    weight_window: Seconds = 60.0
    """Length of that window in seconds; whole seconds, aligned to the epoch."""
    raw_limit: Count = 61000
    """RAW_REQUESTS allowed per window and address."""
    raw_window: Seconds = 300.0
    """Length of that window in seconds."""
    connect_limit: Count = 300
    """Stream connections that may be opened per window and address."""
    connect_window: Seconds = 300.0
    """Length of that window in seconds."""
    messages_per_second: Count = 5
    """Messages a client may send on one stream connection per second, pings and pongs included."""
    streams_per_connection: Count = 1024
    """Streams one connection may carry."""
    ping_every: Seconds = 20.0
    """Seconds between the server's pings."""
    pong_within: Seconds = 60.0
    """Seconds without a pong after which a connection is closed."""
    connection_lifetime: Seconds = 86400.0
    """Seconds after which a connection is closed, however well it behaves."""
    refusals_before_ban: Count = 10
    """Refusals (429) in one window after which the address is banned (418)."""
    first_ban: Seconds = 120.0
    """Length of the first ban; each further one is twice as long."""
    longest_ban: Seconds = 259200.0
    """No ban is longer."""
    uplink_ms: Whole = 20
    """Requests reach the exchange after a jitter of up to so many milliseconds."""
    latency_ms: Count = 5
    """Median time the exchange takes to answer, after admission."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set."""

    logging: Logging = Logging()
    simulator: Simulator = Simulator()


S = TypeVar("S", bound=Struct)


@dataclass(frozen=True)
class Loaded(Generic[S]):
    """Validated settings, and where each value came from."""

    settings: S
    origins: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """(dotted name, value with secrets masked, origin) of every setting."""
        for name, hint in setting_names(type(self.settings)).items():
            value = _value_at(self.settings, name)
            shown = "***" if _holds_secret(hint) and value else value
            yield name, shown, self.origins.get(name, "default")


def load(
    schema: type[S],
    environment: Mapping[str, str],
    file: Path | None = None,
    options: Mapping[str, object] | None = None,
) -> Loaded[S]:
    """Read and validate all settings; ``options`` are dotted names set on the command line.

    Raises:
        ConfigError: a name is unknown, a value is not allowed, or the file cannot be read.
    """
    gathered = _Gathered(setting_names(schema))
    if file is not None:
        gathered.take_file(file)
    gathered.take_environment(environment)
    for name, value in (options or {}).items():
        gathered.put(name, value, f"command line --{name.rpartition('.')[2].replace('_', '-')}")
    return Loaded(gathered.build(schema), gathered.origins)


def setting_names(root: type[Struct]) -> dict[str, Any]:
    """Dotted name → type of every setting below ``root``, in order of declaration."""
    names: dict[str, Any] = {}
    for field, hint in get_type_hints(root, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            names.update({f"{field}.{inner}": t for inner, t in setting_names(hint).items()})
        else:
            names[field] = hint
    return names


def environment_name(dotted: str) -> str:
    """The variable that sets a setting: ``simulator.port`` → ``PENSTOCK_SIMULATOR_PORT``."""
    return "PENSTOCK_" + dotted.replace(".", "_").upper()


class _Gathered:
    """Raw values by dotted name, the strongest so far, with their origins."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.values: dict[str, object] = {}
        self.texts: set[str] = set()
        self.origins: dict[str, str] = {}

    def put(self, name: str, value: object, origin: str) -> None:
        if name not in self.names:
            near = near_matches(name, self.names)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError(name, problem=f"there is no such setting.{hint}", origin=origin)
        self.values[name], self.origins[name] = value, origin
        self.texts.discard(name)

    def take_file(self, file: Path) -> None:
        try:
            tables = tomllib.loads(file.read_text())
        except OSError as error:
            raise ConfigError(
                str(file), problem=f"cannot be read: {error.strerror}.", origin="command line"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(str(file), problem=f"is not TOML: {error}.", origin="file") from error
        for name, value in _flatten(tables):
            self.put(name, value, str(file))

    def take_environment(self, environment: Mapping[str, str]) -> None:
        by_variable = {environment_name(name): name for name in self.names}
        for variable, text in environment.items():
            if variable in by_variable:
                self.put(by_variable[variable], text, f"environment {variable}")
                self.texts.add(by_variable[variable])
            elif variable.startswith("PENSTOCK_") and not variable.startswith("PENSTOCK_TEST_"):
                near = near_matches(variable, by_variable)
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
        # A variable can hold only text, so text may stand for a number or a list there.
        hint, is_text = self.names[name], name in self.texts
        value = _split(str(raw)) if is_text and get_origin(hint) is tuple else raw
        try:
            return msgspec.convert(value, hint, strict=not is_text, dec_hook=_decode)
        except msgspec.ValidationError as error:
            shown = "***" if _holds_secret(hint) else repr(raw)
            raise ConfigError(
                name,
                problem=f"{shown} is not allowed: {error}. Allowed: {describe(hint)}.",
                origin=self.origins[name],
            ) from error


def describe(hint: Any) -> str:
    """A setting's type in words."""
    if get_origin(hint) is Annotated:
        base, *metas = get_args(hint)
        meta = metas[0]
        bounds = [("≥", meta.ge), (">", meta.gt), ("≤", meta.le), ("<", meta.lt)]
        limits = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        return f"{describe(base)} {limits}".strip()
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if get_origin(hint) is tuple:
        return "a list, or names separated by commas"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(hint) if part is not type(None))
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(
        hint, "text"
    )


def _decode(wanted: type, value: object) -> object:
    if isinstance(value, Secret):
        return value
    if wanted is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"expected {wanted.__name__}")


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value_at(settings: Struct, dotted: str) -> Any:
    value: Any = settings
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def _holds_secret(hint: Any) -> bool:
    return hint is Secret or Secret in get_args(hint)
