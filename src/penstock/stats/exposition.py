"""Serves the metrics of one process: on its own port, for Prometheus, and on its socket."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prometheus_client import make_asgi_app
from prometheus_client.process_collector import ProcessCollector

from penstock.config import Metrics as Settings
from penstock.runtime.status import this_machine
from penstock.stats.gauges import CollectorGauges
from penstock.stats.metrics import Metrics
from penstock.stats.sockets import served_on, socket_file
from penstock.web import WebServer, hosts_of, only_for


@contextmanager
def exposed(
    settings: Settings, port_owner: Callable[[int], str | None], folder: Path
) -> Iterator[Metrics]:
    """A listener that counts facts, and serves the metrics until the block is left.

    The metrics include this process's statuses in the folder, its memory and its processor time.

    Raises:
        PortInUse: another program listens on the port.
        ConfigError: this machine does not have the address.
    """
    metrics = Metrics()
    metrics.registry.register(CollectorGauges(folder))
    ProcessCollector(registry=metrics.registry)
    with ExitStack() as stack:
        if settings.port:
            address = settings.host, settings.port
            hosts = hosts_of(settings.host, settings.hosts)
            application = only_for(hosts, make_asgi_app(metrics.registry), "metrics.hosts")
            # In its own thread, so that metrics are served while the process is busy.
            server = WebServer(application, address, port_owner, section="metrics")
            stack.enter_context(server.in_thread())
        if settings.socket:
            stack.enter_context(served_on(socket_file(folder, *this_machine()), metrics.text))
        yield metrics
