"""The registry: every file in ``handlers`` holds one class that does one kind of job.

Nothing lists them: a new kind is a new file with a ``HANDLER``, and no other file is edited.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Protocol, cast

from penstock.ingest import handlers
from penstock.ingest.means import Means
from penstock.jobs.handler import Handler
from penstock.jobs.kinds import Kind


class _HandlerClass(Protocol):
    kind: Kind

    def __call__(self, means: Means) -> Handler: ...


def _classes() -> list[_HandlerClass]:
    names = sorted(module.name for module in pkgutil.iter_modules(handlers.__path__))
    modules = [importlib.import_module(f"{handlers.__name__}.{name}") for name in names]
    return [cast("_HandlerClass", module.HANDLER) for module in modules]


def kinds() -> Mapping[str, Kind]:
    """Every kind of job that somebody here can do, by name."""
    return {each.kind.name: each.kind for each in _classes()}


def build(means: Means) -> Mapping[str, Handler]:
    """A handler for every kind, by its name."""
    return {each.kind.name: each(means) for each in _classes()}
