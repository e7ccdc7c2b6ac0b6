"""A simulated exchange with a data folder, for jobs that fill gaps."""

from tests.ingest.simulated import opened
from tests.quick_limits import quick_kraken

__all__ = ["opened", "quick_kraken"]
