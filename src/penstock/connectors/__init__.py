"""A connector is one exchange's budget, shared by every process that sends to it."""

from penstock.connectors.limits import LimitState
from penstock.connectors.manager import ConnectorManager, Ensured, Token
from penstock.connectors.model import Connector
from penstock.connectors.stops import Stop

__all__ = ["Connector", "ConnectorManager", "Ensured", "LimitState", "Stop", "Token"]
