"""Stream protocols without sockets: parsing of frames, detection of gaps, checks of books."""
