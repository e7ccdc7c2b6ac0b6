"""Stream protocols without sockets: parsing of frames, subscriptions, detection of gaps."""
