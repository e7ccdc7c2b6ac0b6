"""Configuration: everything an operator may set, read once and validated whole.

Values come, strongest first, from the command line, the environment
(``PENSTOCK_<SECTION>_<FIELD>``, then the short names) and ``penstock.toml``; the defaults stand
with the settings. The result is one frozen Struct and a record of where every value came from. An
unknown name or a bad value is an error that says what, where it was set and what is allowed, before
anything has started.
"""

from penstock.config.loading import (
    Loaded,
    describe,
    environment_name,
    load,
    setting_names,
    table_of,
)
from penstock.config.renamed import RENAMED, warn_once
from penstock.config.settings import (
    Api,
    Bus,
    Collect,
    ConnectorPlan,
    Exchanges,
    Fetch,
    FetchKind,
    Jobs,
    LimitPlan,
    Logging,
    Metrics,
    Requests,
    Secret,
    Settings,
    Simulator,
    State,
    Text,
)
from penstock.config.short_names import named_symbols, short_names

__all__ = [
    "RENAMED",
    "Api",
    "Bus",
    "Collect",
    "ConnectorPlan",
    "Exchanges",
    "Fetch",
    "FetchKind",
    "Jobs",
    "LimitPlan",
    "Loaded",
    "Logging",
    "Metrics",
    "Requests",
    "Secret",
    "Settings",
    "Simulator",
    "State",
    "Text",
    "describe",
    "environment_name",
    "load",
    "named_symbols",
    "setting_names",
    "short_names",
    "table_of",
    "warn_once",
]
