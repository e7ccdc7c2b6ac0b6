"""Which exchanges can be simulated: every folder of this package but those that all of them share.

An exchange's folder offers ``build(markets, settings)`` and ``CATALOGUE``, what it would list.
"""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from penstock import simulator
from penstock.config import Simulator
from penstock.errors import UnknownExchange
from penstock.simulator.engine.exchange import SimulatedExchange
from penstock.simulator.market.listings import Catalogue
from penstock.simulator.market.market import Market

SHARED = ("engine", "market")
"""Folders that are no exchange."""


def names() -> tuple[str, ...]:
    """The exchanges there are, by folder."""
    folders = (module.name for module in iter_modules(simulator.__path__) if module.ispkg)
    return tuple(name for name in folders if name not in SHARED)


def build(name: str, markets: Sequence[Market], settings: Simulator) -> SimulatedExchange:
    """The simulated exchange of that name, trading these markets.

    Raises:
        UnknownExchange: there is no such folder.
    """
    built: SimulatedExchange = _folder(name).build(markets, settings)
    return built


def catalogue(name: str) -> Catalogue:
    """The markets that the exchange of that name can list.

    Raises:
        UnknownExchange: there is no such folder.
    """
    found: Catalogue = _folder(name).CATALOGUE
    return found


def _folder(name: str) -> ModuleType:
    if name not in names():
        raise UnknownExchange(name, names())
    return import_module(f"{simulator.__name__}.{name}")
