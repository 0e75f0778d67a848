"""Calibration: how far a judge and the people who label agree, what that shows, and what it can't."""

from projections.calibration.agreement import Coefficient, Confusion
from projections.calibration.correction import Corrected, corrected
from projections.calibration.intervals import Interval, Share, mean_interval, share
from projections.calibration.reporting import (
    AxisReport,
    Calibration,
    Disagreement,
    Row,
    Sample,
    calibration,
    histogram,
    threshold,
)

__all__ = [
    "AxisReport",
    "Calibration",
    "Coefficient",
    "Confusion",
    "Corrected",
    "Disagreement",
    "Interval",
    "Row",
    "Sample",
    "Share",
    "calibration",
    "corrected",
    "histogram",
    "mean_interval",
    "share",
    "threshold",
]
