"""All settings, with their defaults and allowed values.

The string under each field describes it; ``docs/settings.md`` is generated from these strings.
"""

from typing import Literal

from msgspec import Struct

from penstock.config.collecting import Collect, Fetch, Ingest, Jobs, Tickers
from penstock.config.monitoring import Alerts, Stats
from penstock.config.operating import Backup, Disk, Logs, Up
from penstock.config.plans import ConnectorPlan
from penstock.config.requesting import Breaker, Exchanges, Requests
from penstock.config.serving import Api, Bus, Metrics, Publish
from penstock.config.simulator import Simulator
from penstock.config.storing import Keep, Live, State, Storage


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logs, written to stderr."""

    format: Literal["auto", "human", "json"] = "auto"
    """``human`` lines, ``json`` lines, or ``auto``: human on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Nothing below this level is written; docs/logs.md has the level of each fact."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set."""

    logging: Logging = Logging()
    logs: Logs = Logs()
    simulator: Simulator = Simulator()
    collect: Collect = Collect()
    fetch: Fetch = Fetch()
    storage: Storage = Storage()
    keep: Keep = Keep()
    backup: Backup = Backup()
    disk: Disk = Disk()
    publish: Publish = Publish()
    state: State = State()
    live: Live = Live()
    tickers: Tickers = Tickers()
    exchanges: Exchanges = Exchanges()
    requests: Requests = Requests()
    breaker: Breaker = Breaker()
    jobs: Jobs = Jobs()
    ingest: Ingest = Ingest()
    api: Api = Api()
    metrics: Metrics = Metrics()
    bus: Bus = Bus()
    stats: Stats = Stats()
    alerts: Alerts = Alerts()
    up: Up = Up()
    connectors: dict[str, ConnectorPlan] = {}
    """The limits of exchanges: tables ``[connectors.NAME]``."""
