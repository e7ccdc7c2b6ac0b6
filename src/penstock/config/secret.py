"""Secrets among the settings: text that is never printed, and where it may come from.

A secret comes from the environment or from a file that contains nothing else, never from the
settings file, which is copied and shared. ``api.token`` is read from the file that
``api.token_file`` names, or ``PENSTOCK_API_TOKEN_FILE``.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from msgspec import Meta

from penstock.errors import mask_urls, password_in

_MOUNTED = Path("/run/secrets")
"""Container engines mount secrets there, readable by all users of the container."""
_SECRET_NAME = re.compile(r"secret|passw|token|credential|(?:^|_)(?:key|sas)(?:_|$)")
_LONGEST = 65_536


class Secret(str):
    """Text that is masked in ``str`` and ``repr``, and so in every log and traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def reveal(self) -> str:
        """Return the text itself, for the code that sends it."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


Sensitive = Annotated[str, Meta(extra={"sensitive": True})]
"""Text of which a part may be secret: a URL with a password. It may be read from a file too."""


def is_secret(hint: Any) -> bool:
    """Whether a setting of this type is a secret, or a table of secrets."""
    return hint is Secret or Secret in get_args(hint)


def may_be_in_file(hint: Any) -> bool:
    """Whether a setting of this type has a variable that names a file with its value."""
    return is_secret(hint) or hint == Sensitive or Sensitive in get_args(hint)


def is_secret_name(name: str) -> bool:
    """Whether an option of this name is a secret: ``aws_secret_access_key``, but no ``…_id``."""
    return bool(_SECRET_NAME.search(name.lower())) and not name.lower().endswith("_id")


def masked(value: Any) -> Any:
    """Return a setting's value without secrets: passwords in URLs and options that are secret."""
    match value:
        case str():
            return mask_urls(value)
        case tuple():
            return tuple(map(masked, value))
        case dict():
            return {
                key: "***" if inner and is_secret_name(str(key)) else masked(inner)
                for key, inner in value.items()
            }
    return value


def secrets_in(value: Any) -> Iterator[str]:
    """Yield the secrets in a setting's value."""
    match value:
        case Secret():
            yield value.reveal()
            # Of an address, such as a webhook's, it is the path that must not be known.
            _, is_url, rest = value.reveal().partition("://")
            yield from [rest.partition("/")[2]] if is_url else []
        case str():
            if password := password_in(value):
                yield password
        case tuple():
            for inner in value:
                yield from secrets_in(inner)
        case dict():
            for key, inner in value.items():
                yield from [inner] if is_secret_name(str(key)) else secrets_in(inner)


@dataclass(frozen=True)
class InFile:
    """The value of a setting that is in a file, or the values of a table in one file each."""

    place: str | Mapping[str, str]

    def files(self) -> tuple[Path, ...]:
        """The files."""
        places = [self.place] if isinstance(self.place, str) else self.place.values()
        return tuple(Path(place).expanduser() for place in places)

    def read(self) -> str | dict[str, str]:
        """Return the value, without the line break at the end.

        Raises:
            ValueError: a file cannot be read or is empty. The message names it.
        """
        if isinstance(self.place, str):
            return _read(Path(self.place).expanduser())
        return {name: _read(Path(place).expanduser()) for name, place in self.place.items()}


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_LONGEST + 1).strip()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not text") from None
    if not text or len(text) > _LONGEST:
        raise ValueError(f"{file} is {'empty' if not text else 'too long for a secret'}")
    return text


def is_readable_by_all(file: Path) -> bool:
    """Whether every user of this machine may read the file, as far as its mode says."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IROTH) and not file.is_relative_to(_MOUNTED)
