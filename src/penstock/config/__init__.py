"""The configuration, read once and validated as a whole.

Values come, in order of precedence, from the command line, the environment
(``PENSTOCK_<SECTION>_<FIELD>``, then the short names), ``penstock.toml``, and the defaults in the
settings. The result is one frozen Struct and the source of every value. An unknown name or an
invalid value is an error with the setting, its source and the allowed values, raised before
anything starts.
"""

from penstock.config.loading import (
    Loaded,
    describe,
    environment_name,
    load,
    setting_names,
    table_of,
)
from penstock.config.plans import ConnectorPlan, LimitPlan, Text
from penstock.config.renamed import RENAMED, warn_once
from penstock.config.settings import (
    Api,
    Breaker,
    Bus,
    Collect,
    Exchanges,
    Fetch,
    FetchKind,
    Ingest,
    Jobs,
    Keep,
    Live,
    Logging,
    Metrics,
    Publish,
    Requests,
    Secret,
    Settings,
    State,
    Storage,
    Tickers,
)
from penstock.config.short_names import named_symbols, short_names
from penstock.config.simulator import (
    SimulatedBinance,
    SimulatedCoinbase,
    SimulatedKraken,
    SimulatedUpbit,
    Simulator,
)

__all__ = [
    "RENAMED",
    "Api",
    "Breaker",
    "Bus",
    "Collect",
    "ConnectorPlan",
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
    "Settings",
    "SimulatedBinance",
    "SimulatedCoinbase",
    "SimulatedKraken",
    "SimulatedUpbit",
    "Simulator",
    "State",
    "Storage",
    "Text",
    "Tickers",
    "describe",
    "environment_name",
    "load",
    "named_symbols",
    "setting_names",
    "short_names",
    "table_of",
    "warn_once",
]
