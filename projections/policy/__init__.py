"""Policy: which candidate a request goes to, learned from how the candidates did on fit tasks."""

from projections.policy.choice import Fitted, Operating, Trial, fit, meeting
from projections.policy.deciding import (
    Decision,
    Neighbour,
    Policy,
    Scored,
    at_target,
    course,
    decide,
    encode,
    frozen,
    routes,
)
from projections.policy.dial import Dial, Price, Tolerance
from projections.policy.evidence import Candidate, Row, packed
from projections.policy.methods import Clusters, Method, Neighbours, Overall

VERSION = "policy@3"

__all__ = [
    "VERSION",
    "Candidate",
    "Clusters",
    "Decision",
    "Dial",
    "Fitted",
    "Method",
    "Neighbour",
    "Neighbours",
    "Operating",
    "Overall",
    "Policy",
    "Price",
    "Row",
    "Scored",
    "Tolerance",
    "Trial",
    "at_target",
    "course",
    "decide",
    "encode",
    "fit",
    "frozen",
    "meeting",
    "packed",
    "routes",
]
