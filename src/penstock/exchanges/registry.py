"""The registry: every folder beside this file is an exchange, found by its name.

A folder with a ``family.py`` is a family of them, whose members are named ``family:member``.
Nothing lists them: a new exchange is a new folder, and no other file is edited.
"""

import importlib
import pkgutil
from pathlib import Path

from penstock.errors import UnknownExchange
from penstock.exchanges.base import Exchange

SEPARATOR = ":"
"""Between a family and its member."""
_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The exchanges that have a folder of their own, in alphabetical order."""
    return [name for name in _folders() if not _is_family(name)]


def families() -> list[str]:
    """The families of exchanges there are; what belongs to one, only its library knows."""
    return [name for name in _folders() if _is_family(name)]


def file_name(name: str) -> str:
    """An exchange's name as files may have it. No folder's holds a hyphen, so no two meet."""
    return name.replace(SEPARATOR, "-")


def load(name: str) -> Exchange:
    """The exchange of that name; only its own folder is imported.

    Raises:
        UnknownExchange: there is none.
        MissingExtra: it belongs to a family whose library is not installed.
    """
    family, is_member, member = name.partition(SEPARATOR)
    if is_member and family in families():
        module = importlib.import_module(f"penstock.exchanges.{family}.family")
        found: Exchange = module.load(member)
        return found
    known = names()
    if name not in known:
        raise UnknownExchange(name, [*known, *(f"{each}{SEPARATOR}NAME" for each in families())])
    module = importlib.import_module(f"penstock.exchanges.{name}")
    exchange: Exchange = module.EXCHANGE
    return exchange


def _folders() -> list[str]:
    return sorted(each.name for each in pkgutil.iter_modules([str(_FOLDER)]) if each.ispkg)


def _is_family(name: str) -> bool:
    return (_FOLDER / name / "family.py").is_file()
