"""What every test shares: hypothesis without deadlines, no stray environment, databases."""

import gc
import importlib
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import servers
from tests.fork_server import import_everything
from tests.libraries import read_libraries_from_files

from penstock.telemetry.logs import ToStderr

pytest_plugins = ["tests.workers"]

# Machines that share their cores stall for longer than any deadline worth having.
settings.register_profile(
    "penstock",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    print_blob=True,
    max_examples=25,
)
# Many more random cases: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", settings.get_profile("penstock"), max_examples=2000)
settings.load_profile("penstock")


# Whoever imports aiohttp reads the certificates of all authorities, which takes a tenth of a second
# in every process, and no test asks anybody outside.
os.environ["SSL_CERT_FILE"] = os.devnull

read_libraries_from_files()

# Collecting makes hundreds of thousands of objects that stay: looking for garbage is in vain.
gc.disable()


LATE = ("pandas", "pyarrow.dataset", "ccxt.async_support", "moto.moto_server.werkzeug_app")
"""What is imported when it is first used, and takes a second or more."""
MANY = 1_000
"""Of as many tests some use whatever is there."""
GARBAGE_AFTER = (20_000, 20, 20)
"""Where most objects are frozen, the usual thresholds have all others looked at all the time."""


FOR_TESTS = ("-F", "-N", "400")
"""Nothing is synced, for no test cuts the power; and all workers may connect at once."""
_shared: dict[str, str] = {}
"""The URLs of servers that all workers use: to start one takes a second of a processor."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import what every worker would; look for garbage again, among what the tests make."""
    if session.config.getoption("--workers") and len(session.items) > MANY:
        running = ExitStack()
        session.config.add_cleanup(running.close)
        with ThreadPoolExecutor() as meanwhile:
            made = {
                "postgresql": servers.postgresql(*FOR_TESTS), "mongodb": servers.mongodb(),
            }  # fmt: skip
            urls = {
                name: meanwhile.submit(running.enter_context, server)
                for name, server in made.items()
            }
            import_everything()
            for name in LATE:
                importlib.import_module(name)
        _shared.update((name, url.result()) for name, url in urls.items())
    gc.freeze()
    gc.set_threshold(*GARBAGE_AFTER)
    gc.enable()


FIRST = (
    "test_readme.py", "test_notebook.py", "test_old_data.py", "test_docs_examples.py",
    "test_tutorials.py",
)  # fmt: skip
"""Files that take long and would come last, when the other workers have nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have penstock configured; the tests must not see it."""
    for name in list(os.environ):
        if name.startswith("PENSTOCK_") and not name.startswith("PENSTOCK_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_logging_from_before() -> Iterator[None]:
    """A command that a test ran in this process configured logging; others keep no log files."""
    yield
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, ToStderr)]


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL in which anything may be created; others may do so, too."""
    if shared := _shared.get("postgresql"):
        yield shared
        return
    with servers.postgresql(*FOR_TESTS) as url:
        yield url


@pytest.fixture(scope="session")
def mongodb_url() -> Iterator[str]:
    """The address of a server that speaks MongoDB's protocol; others may use it, too."""
    if shared := _shared.get("mongodb"):
        yield shared
        return
    with servers.mongodb() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a Redis or a Valkey."""
    with servers.redis() as url:
        yield url


_live_stores = count()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def live_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def live_url(live_backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of live values, of each kind."""
    if live_backend == "memory":
        return "memory:"
    if live_backend == "sqlite":
        return f"sqlite:{tmp_path / 'live.db'}"
    # Tests share the server, so each has a prefix of its own.
    prefix = f"test-{os.getpid()}-{next(_live_stores)}"
    return f"{request.getfixturevalue('redis_url')}?prefix={prefix}"


@pytest.fixture(autouse=True)
def no_credentials_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores of tests have credentials of their own; none are looked for on the machine."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """The options of an object store with a bucket ``lake``."""
    with servers.s3() as options:
        yield options
