"""Finds exchanges by name; every folder beside this file is an exchange.

A folder with a ``family.py`` is a family of exchanges, with members named ``family:member``.
There is no list of exchanges: a new exchange is a new folder, and no other file is edited.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from penstock.books.rules import BookRules
from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges.base import Exchange
from penstock.exchanges.symbol_map import SymbolMap

SEPARATOR = ":"
"""Separates the names of a family and its member."""
_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The exchanges that have a folder of their own, in alphabetical order."""
    return [name for name in _folders() if not _is_family(name)]


def families() -> list[str]:
    """The families of exchanges; the members of each are defined by its library."""
    return [name for name in _folders() if _is_family(name)]


def file_name(name: str) -> str:
    """An exchange's name for file names. No folder's name has a hyphen, so all stay unique."""
    return name.replace(SEPARATOR, "-")


def load(name: str) -> Exchange:
    """The exchange of that name; only its own folder is imported.

    Raises:
        UnknownExchange: there is no exchange of that name.
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


@cache
def book_rules(name: str) -> BookRules | None:
    """The rules of an exchange's books; None if this version does not know the exchange."""
    try:
        return load(name).dialect(SymbolMap(name, ())).books
    except (UnknownExchange, MissingExtra):
        return None


def _folders() -> list[str]:
    return sorted(each.name for each in pkgutil.iter_modules([str(_FOLDER)]) if each.ispkg)


def _is_family(name: str) -> bool:
    return (_FOLDER / name / "family.py").is_file()
