"""A simulated exchange with a data folder, for jobs that fill gaps."""

from tests.ingest.simulated import opened

__all__ = ["opened"]
