"""Storage: where records stay. Each kind of store is a port with one file per backend."""
