"""Order books: their levels, how they are kept valid, audits and known depth. No I/O."""
