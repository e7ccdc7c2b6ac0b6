"""Starts the processes of a machine, restarts them when they fail, and stops them in order.

``child``, ``health`` and ``supervision`` are state machines without processes or clocks; ``plan``
makes the list of processes from the settings; ``supervisor`` runs them.
"""

from penstock.supervisor.plan import plan_children

__all__ = ["plan_children"]
