"""Exposition: what one process counts, on a port of its own, for Prometheus to fetch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import make_asgi_app

from penstock.config import Metrics as Settings
from penstock.stats.gauges import CollectorGauges
from penstock.stats.metrics import Metrics
from penstock.web import WebServer, hosts_of, only_for


@contextmanager
def exposed(
    settings: Settings, port_owner: Callable[[int], str | None], folder: Path
) -> Iterator[Metrics]:
    """A listener that counts, and shows what it counted until the block is left.

    What this process says of itself in a status in the folder is shown as well.

    Raises:
        PortInUse: another program listens there.
        ConfigError: this machine has no such address.
    """
    metrics = Metrics()
    metrics.registry.register(CollectorGauges(folder))
    address = settings.host, settings.port
    hosts = hosts_of(settings.host, settings.hosts)
    application = only_for(hosts, make_asgi_app(metrics.registry), "metrics.hosts")
    # In a thread of its own, so that metrics are shown while the process is busy.
    with WebServer(application, address, port_owner, section="metrics").in_thread():
        yield metrics
