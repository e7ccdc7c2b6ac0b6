"""Statistics: facts and state made into metrics."""
