"""A simulated exchange with a data folder, for jobs that fill gaps, and one with files."""

from tests.ingest.bulk import place
from tests.ingest.simulated import opened
from tests.quick_limits import quick_kraken

__all__ = ["opened", "place", "quick_kraken"]
