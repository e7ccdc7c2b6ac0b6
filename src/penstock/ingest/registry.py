"""Finds the kinds of jobs: every file in ``kinds`` has one class for one of them.

There is no list of them: a new kind is a new file with a ``KIND``, and no other file is edited.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, cast

from penstock.ingest import kinds as folder
from penstock.ingest.context import HandlerContext
from penstock.jobs.kinds import AnyKind, JobKind


def kinds() -> Mapping[str, AnyKind]:
    """Every kind of job, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    return {module.KIND.name: module.KIND for module in modules}


def build(context: HandlerContext) -> Mapping[str, JobKind[Any, Any]]:
    """Create every kind with the dependencies to run its jobs, by name."""
    made = cast("Mapping[str, Callable[[HandlerContext], JobKind[Any, Any]]]", kinds())
    return {name: make(context) for name, make in made.items()}
