"""The registry: every folder beside this file is an exchange, found by its name.

Nothing lists them: a new exchange is a new folder, and no other file is edited.
"""

import importlib
import pkgutil
from pathlib import Path

from penstock.errors import UnknownExchange
from penstock.exchanges.base import Exchange


def names() -> list[str]:
    """The exchanges there are, in alphabetical order."""
    return sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.ispkg)


def load(name: str) -> Exchange:
    """The exchange of that name; only its own folder is imported.

    Raises:
        UnknownExchange: there is none.
    """
    known = names()
    if name not in known:
        raise UnknownExchange(name, known)
    module = importlib.import_module(f"penstock.exchanges.{name}")
    exchange: Exchange = module.EXCHANGE
    return exchange
