"""A scheme of a URL is the name of a module that opens it, and of no other module."""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

import pytest

from penstock.errors import ConfigError
from penstock.storage import cache, log, state


def opens_urls(package: str, path: Iterable[str]) -> set[str]:
    names = {module.name for module in iter_modules(path)}
    return {name for name in names if hasattr(import_module(f"{package}.{name}"), "open_url")}


async def test_every_module_that_opens_urls_is_a_scheme_and_no_other() -> None:
    assert opens_urls(log.__name__, log.__path__) == {"memory", "rocksdb"}
    assert opens_urls(state.__name__, state.__path__) == {
        "memory", "mongodb", "postgresql", "sqlite",
    }  # fmt: skip
    assert opens_urls(cache.__name__, cache.__path__) == {"memory", "redis", "sqlite"}
    for module in iter_modules(log.__path__):
        if module.name not in ("memory", "rocksdb"):
            with pytest.raises(ConfigError, match="rocksdb: or memory:"):
                log.open_log(f"{module.name}:x")
    for module in iter_modules(state.__path__):
        if module.name not in ("memory", "mongodb", "postgresql", "sqlite"):
            with pytest.raises(ConfigError, match="sqlite: or postgresql:"):
                await state.open_store(f"{module.name}:x")
    for module in iter_modules(cache.__path__):
        if module.name not in ("memory", "redis", "sqlite"):
            with pytest.raises(ConfigError, match="sqlite: or rediss: or redis: or memory:"):
                await cache.open_live_store(f"{module.name}:x")
