"""Exposition: what one process counts, on a port of its own, for Prometheus to fetch."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import start_http_server

from penstock.config import Metrics as Settings
from penstock.errors import ConfigError, PortInUse
from penstock.stats.gauges import CollectorGauges
from penstock.stats.metrics import Metrics


@contextmanager
def exposed(
    settings: Settings, holder_of: Callable[[int], str | None], folder: Path
) -> Iterator[Metrics]:
    """A listener that counts, and shows what it counted until the block is left.

    What this process says of itself in a status in the folder is shown as well.

    Raises:
        PortInUse: another program listens there.
        ConfigError: this machine has no such address.
    """
    metrics = Metrics()
    metrics.registry.register(CollectorGauges(folder))
    host, port = settings.host, settings.port
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(host, port, holder_of(port)) from error
        problem = f"cannot listen on {host}: {error.strerror}."
        raise ConfigError("metrics.host", problem=problem, origin="settings") from error
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
