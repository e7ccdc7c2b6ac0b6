"""Serves metrics over HTTP, if a port is set."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.app.extras import installed_with
from penstock.config import Settings
from penstock.net.port_owner import port_owner
from penstock.telemetry import Listener, fan_out


@contextmanager
def measured(settings: Settings, listener: Listener) -> Iterator[Listener]:
    """A listener that also counts facts and serves them as metrics, if a port is set.

    Raises:
        MissingExtra: a library it needs is not installed.
        PortInUse: another program listens on the port.
    """
    if not settings.metrics.port:
        yield listener
        return
    with installed_with("api"):
        from penstock.stats.exposition import exposed  # noqa: PLC0415
    with exposed(settings.metrics, port_owner, Path(settings.collect.data_dir)) as metrics:
        yield fan_out([metrics, listener])
