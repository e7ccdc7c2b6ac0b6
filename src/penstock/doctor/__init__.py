"""Checks a machine, its settings and its stores, and says what to do about each problem.

Nothing is changed. A check is a function of a ``Subject``; checks run at the same time, and each
has a time limit.
"""

from penstock.doctor.model import Finding, Level, Subject, worst
from penstock.doctor.run import examine

__all__ = ["Finding", "Level", "Subject", "examine", "worst"]
