"""A simulated exchange with a data folder, for jobs that fill gaps, and one with files."""

from tests.ingest.bulk import place
from tests.ingest.simulated import opened

__all__ = ["opened", "place"]
