"""Jobs: work with a cursor, leased to one worker at a time."""
