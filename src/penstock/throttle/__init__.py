"""Throttling: requests leave no faster than an exchange counts them."""
