"""The composition root: one module per process builds it from settings."""
