"""Stream protocols without sockets: connections, subscriptions, duplicates, stalls."""
