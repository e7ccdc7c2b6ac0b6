"""The documents that show a fleet: read from what its processes wrote, for the API and ``top``."""
