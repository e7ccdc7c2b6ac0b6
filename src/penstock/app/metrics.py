"""Serves the metrics of a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.app.extras import installed_with
from penstock.config import Settings
from penstock.net.port_owner import port_owner
from penstock.telemetry import Listener, fan_out


@contextmanager
def measured(settings: Settings, listener: Listener) -> Iterator[Listener]:
    """A listener that also counts facts and serves them as metrics.

    Without the library of metrics they are not served, unless a port is set.

    Raises:
        MissingExtra: a library it needs is not installed.
        PortInUse: another program listens on the port.
    """
    if not settings.metrics.port and not _has_metrics(settings):
        yield listener
        return
    with installed_with("api"):
        from penstock.stats.exposition import exposed  # noqa: PLC0415
    with exposed(settings.metrics, port_owner, Path(settings.collect.data_dir)) as metrics:
        yield fan_out([metrics, listener])


def _has_metrics(settings: Settings) -> bool:
    return settings.metrics.socket and find_spec("prometheus_client") is not None
