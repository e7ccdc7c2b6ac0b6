"""URLs of Redis servers.

``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`` is one server, ``redis+cluster://HOST,HOST…`` a
cluster, ``redis+sentinel://HOST,HOST…/SERVICE[/DATABASE]`` servers that Sentinels know. With
``rediss`` in place of ``redis`` the connection is encrypted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from penstock.errors import ConfigError, near_matches

Kind = Literal["server", "cluster", "sentinel"]

_KINDS: Mapping[str, Kind] = {"": "server", "cluster": "cluster", "sentinel": "sentinel"}
_PORTS = {"server": 6379, "cluster": 6379, "sentinel": 26379}
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_OPTIONS = ("prefix", *_FILES, "ssl_cert_reqs", "ssl_check_hostname")
_VERIFY = ("required", "optional", "none")
_SPECIAL = "In names and passwords write / @ : ? # as %2F %40 %3A %3F %23."


class RedisAddress(Struct, frozen=True, kw_only=True):
    """What a URL says. Never printed: it has the password."""

    kind: Kind
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    database: int
    service: str
    """The name under which Sentinels know the servers."""
    prefix: str
    """All keys begin with it."""
    tls_options: Mapping[str, str | bool]

    @property
    def where(self) -> str:
        """The address for messages, without name and password."""
        scheme = f"redis{'s' if self.tls else ''}"
        scheme += "" if self.kind == "server" else f"+{self.kind}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                         for host, port in self.hosts)  # fmt: skip
        service = f"/{self.service}" if self.service else ""
        return f"{scheme}://{hosts}{service}/{self.database}"


def parse(url: str) -> RedisAddress:
    """Parse a URL.

    Raises:
        ConfigError: it is invalid. The message has no part of a password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _wrong(f"is no URL. {_SPECIAL}") from error
    base, _, how = parts.scheme.partition("+")
    if base not in ("redis", "rediss") or how not in _KINDS:
        raise _wrong("begins with redis:// or rediss://, or with +cluster or +sentinel after it.")
    if parts.fragment or not url.startswith(f"{parts.scheme}://"):
        raise _wrong(f"is no URL. {_SPECIAL}")
    kind, tls = _KINDS[how], base == "rediss"
    user, at, places = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    options = _options(parts.query, tls=tls)
    service, database = _path(parts.path, kind)
    prefix = str(options.pop("prefix", "penstock"))
    return RedisAddress(
        kind=kind,
        tls=tls,
        hosts=tuple(_host(place, _PORTS[kind]) for place in places.split(",")),
        username=unquote(name) or None if at else None,
        password=unquote(password) or None if at else None,
        database=database,
        service=service,
        # In a cluster braces keep all keys on one node, so that a script may use several.
        prefix=f"{{{prefix}}}" if kind == "cluster" else prefix,
        tls_options=options,
    )


def _host(place: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        if not parts.hostname or parts.username is not None:
            raise _wrong(f"names no host. {_SPECIAL}")
        return parts.hostname, parts.port or port
    except ValueError as error:
        # The cause is not shown: it may contain a part of the password.
        raise _wrong(f"has a host or a port that is none. {_SPECIAL}") from error


def _path(path: str, kind: Kind) -> tuple[str, int]:
    service, rest = "", path.strip("/")
    if kind == "sentinel":
        service, _, rest = rest.partition("/")
        if not service:
            raise _wrong("names no service: redis+sentinel://HOST,HOST/SERVICE.")
    if rest and not (rest.isascii() and rest.isdigit() and len(rest) < 6):
        raise _wrong(f"has a database that is no number: redis://HOST/0. {_SPECIAL}")
    if kind == "cluster" and rest not in ("", "0"):
        raise _wrong("has a database, but a cluster has only database 0.")
    return unquote(service), int(rest or 0)


def _options(query: str, *, tls: bool) -> dict[str, str | bool]:
    found: dict[str, str | bool] = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in found.items():
        if name not in _OPTIONS:
            near = near_matches(name, _OPTIONS)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            raise _wrong(f"has an option it cannot have.{meant} Options are {', '.join(_OPTIONS)}.")
        if name.startswith("ssl_") and not tls:
            raise _wrong(f"has the option {name}, which needs rediss://.")
        if name in _FILES and not Path(str(value)).is_file():
            raise _wrong(f"names a file that does not exist: {name}={value}")
    if found.get("ssl_cert_reqs", "required") not in _VERIFY:
        raise _wrong(f"has ssl_cert_reqs that is none of {', '.join(_VERIFY)}.")
    if "ssl_check_hostname" in found:
        found["ssl_check_hostname"] = str(found["ssl_check_hostname"]).lower() in ("1", "true")
    prefix = str(found.get("prefix", "penstock"))
    if not prefix or not prefix.isprintable() or set(prefix) & set("{} *?[]\\"):
        raise _wrong("has a prefix that is empty, or has spaces or one of {}*?[]\\.")
    return found


def _wrong(problem: str) -> ConfigError:
    return ConfigError("redis:", problem=problem, origin="live URL")
