"""Settings of operations: what is measured, and who is told of problems."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from penstock.config.ranges import Seconds
from penstock.config.secret import Secret
from penstock.errors import ConfigError


class Stats(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Statistics of storage, made by the keeper (``penstock stats``)."""

    every: Annotated[float, Meta(gt=0, le=300)] = 60.0
    """Seconds between two measurements of the data folder and the lake. Alerts of disks judge only
    measurements of the last ten minutes, hence the maximum."""


class Alerts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts, evaluated and sent by one keeper or server of a fleet (``penstock alerts``)."""

    webhook: Secret = Secret("")
    """Address that alerts are posted to, ``https://…``. Who knows it can post there, so it is a
    secret. Empty: alerts are shown and not sent."""
    format: Literal["slack", "discord", "json"] = "slack"
    """The form of what is posted: for an incoming webhook of Slack (Mattermost and others read it
    too) or of Discord, or JSON for a program of your own."""
    cooldown: Seconds = 3600.0
    """Seconds before an alert that is still firing, or fires again, is sent again."""
    gaps_after: Seconds = 600.0
    """Seconds for which gaps may be open before they are an alert; usually they are filled."""
    stale_after: Seconds = 300.0
    """Seconds without data after which a collector or a ticker daemon is an alert."""
    disk_free_percent: Annotated[float, Meta(ge=0, le=100)] = 10.0
    """Share of a disk that must be free."""
    disk_full_days: Annotated[float, Meta(ge=0)] = 3.0
    """Days before a disk is full at which it is an alert."""
    backup_after: Seconds = 86_400.0
    """Age in seconds of the last backup of a data folder in use at which it is an alert. A folder
    that was never backed up is none."""


def check_webhook(settings: Alerts) -> None:
    """Check the address.

    Raises:
        ConfigError: it is not one of a web server. The address is not in the message.
    """
    address = settings.webhook.reveal()
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_good = False
    if address and (not is_good or any(each.isspace() for each in address)):
        problem = "is not an address: it begins with https:// and the name of a server."
        raise ConfigError("alerts.webhook", problem=problem, origin="settings")
