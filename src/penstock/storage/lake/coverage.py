"""The table ``coverage``: what is complete and what is missing, so that a lake alone can tell."""

import pyarrow as pa

COVERAGE = "coverage"

COVERAGE_SCHEMA = pa.schema(
    [
        ("exchange", pa.string()),
        ("channel", pa.string()),
        ("symbol", pa.string()),
        ("by", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("since", pa.timestamp("us", tz="UTC")),
        ("until", pa.timestamp("us", tz="UTC")),
        ("state", pa.string()),
        ("cause", pa.string()),
        ("origin", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
    ]
)
