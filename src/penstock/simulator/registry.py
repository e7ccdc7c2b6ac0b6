"""Finds the exchanges that can be simulated: every folder of this package except the shared ones.

An exchange's folder has ``build(markets, settings)`` and ``CATALOGUE``, the markets it can list.
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
"""Folders that are not exchanges."""


def names() -> tuple[str, ...]:
    """The names of the exchanges, which are those of their folders."""
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
