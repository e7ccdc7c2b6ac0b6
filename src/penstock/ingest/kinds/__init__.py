"""One file per kind of job, with one class ``KIND``."""
