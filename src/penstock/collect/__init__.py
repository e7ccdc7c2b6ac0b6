"""Collectors and fetchers: they record an exchange's data and detect what is missing."""
