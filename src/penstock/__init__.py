"""penstock: crypto market data, complete, provably gap-free, within every rate limit."""

__version__ = "0.1.0"

# What programs import from here. Found when asked for: importing the package does no work.
_OFFERED = {
    "Delivery": "penstock.publish.subscriber",
    "GapError": "penstock.errors",
    "GapWarning": "penstock.errors.reading",
    "Missing": "penstock.publish.subscriber",
    "open": "penstock.app.dataset",
    "open_budget": "penstock.app.budget",
    "subscribe": "penstock.app.bus",
}


def __getattr__(name: str) -> object:
    if name not in _OFFERED:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_OFFERED[name]), name)
