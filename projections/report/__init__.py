"""Report: what a policy is worth, measured on held-out tasks only."""

from projections.report.frontier import improvement, upper_hull
from projections.report.reporting import (
    VERSION,
    Basis,
    Difference,
    Exclusion,
    Line,
    Point,
    Report,
    Routed,
    report,
)
from projections.report.spread import Spread

__all__ = [
    "VERSION",
    "Basis",
    "Difference",
    "Exclusion",
    "Line",
    "Point",
    "Report",
    "Routed",
    "Spread",
    "improvement",
    "report",
    "upper_hull",
]
