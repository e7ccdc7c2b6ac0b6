"""What every process has: a name, stores, a recorder, publishers, a status, and one way to stop."""
