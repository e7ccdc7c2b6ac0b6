"""Metrics over HTTP, if a port is set for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.app.extras import installed_with
from penstock.config import Settings
from penstock.net.port_owner import port_owner
from penstock.telemetry import Listener, tell_all


@contextmanager
def measured(settings: Settings, listener: Listener) -> Iterator[Listener]:
    """A listener whose facts are counted and shown as well, if the operator wants that.

    Raises:
        MissingExtra: what it is made of is not installed.
        PortInUse: another program listens there.
    """
    if not settings.metrics.port:
        yield listener
        return
    with installed_with("api"):
        from penstock.stats.exposition import exposed  # noqa: PLC0415
    with exposed(settings.metrics, port_owner, Path(settings.collect.data_dir)) as metrics:
        yield tell_all([metrics, listener])
