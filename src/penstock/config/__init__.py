"""The configuration, read once and validated as a whole.

Values come, in order of precedence, from the command line, the environment
(``PENSTOCK_<SECTION>_<FIELD>``, then the short names), ``penstock.toml``, and the defaults in the
settings. The result is one frozen Struct and the source of every value. An unknown name or an
invalid value is an error with the setting, its source and the allowed values, raised before
anything starts.
"""

from penstock.config.collecting import Collect, Fetch, FetchKind, Ingest, Jobs, Tickers
from penstock.config.loading import Loaded, load
from penstock.config.monitoring import Alerts, Stats
from penstock.config.operating import Backup, Disk, Up, UpExchange
from penstock.config.plans import ConnectorPlan, LimitPlan, Text
from penstock.config.renamed import RENAMED, warn_once
from penstock.config.requesting import Breaker, Exchanges, Requests
from penstock.config.schema import (
    describe,
    environment_name,
    field_notes,
    in_file_names,
    is_section,
    setting_names,
    table_of,
)
from penstock.config.secret import Secret, Sensitive
from penstock.config.serving import Api, Bus, Metrics, Publish
from penstock.config.settings import Logging, Settings
from penstock.config.short_names import named_symbols, short_names, unused_key
from penstock.config.simulator import (
    SimulatedBinance,
    SimulatedCoinbase,
    SimulatedKraken,
    SimulatedUpbit,
    Simulator,
)
from penstock.config.storing import Keep, Live, State, Storage

__all__ = [
    "RENAMED",
    "Alerts",
    "Api",
    "Backup",
    "Breaker",
    "Bus",
    "Collect",
    "ConnectorPlan",
    "Disk",
    "Exchanges",
    "Fetch",
    "FetchKind",
    "Ingest",
    "Jobs",
    "Keep",
    "LimitPlan",
    "Live",
    "Loaded",
    "Logging",
    "Metrics",
    "Publish",
    "Requests",
    "Secret",
    "Sensitive",
    "Settings",
    "SimulatedBinance",
    "SimulatedCoinbase",
    "SimulatedKraken",
    "SimulatedUpbit",
    "Simulator",
    "State",
    "Stats",
    "Storage",
    "Text",
    "Tickers",
    "Up",
    "UpExchange",
    "describe",
    "environment_name",
    "field_notes",
    "in_file_names",
    "is_section",
    "load",
    "named_symbols",
    "setting_names",
    "short_names",
    "table_of",
    "unused_key",
    "warn_once",
]
