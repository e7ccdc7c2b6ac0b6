"""Finds the job handlers: every file in ``handlers`` has one class for one kind of job.

There is no list of them: a new kind is a new file with a ``HANDLER``, and no other file is edited.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Protocol, cast

from penstock.ingest import handlers
from penstock.ingest.context import HandlerContext
from penstock.jobs.handler import Handler
from penstock.jobs.kinds import JobKind


class _HandlerClass(Protocol):
    kind: JobKind

    def __call__(self, context: HandlerContext) -> Handler: ...


def _classes() -> list[_HandlerClass]:
    names = sorted(module.name for module in pkgutil.iter_modules(handlers.__path__))
    modules = [importlib.import_module(f"{handlers.__name__}.{name}") for name in names]
    return [cast("_HandlerClass", module.HANDLER) for module in modules]


def kinds() -> Mapping[str, JobKind]:
    """Every kind of job that has a handler, by name."""
    return {each.kind.name: each.kind for each in _classes()}


def build(context: HandlerContext) -> Mapping[str, Handler]:
    """Create a handler for every kind, by name."""
    return {each.kind.name: each(context) for each in _classes()}
