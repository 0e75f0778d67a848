"""The sheet: what a report shows, as facts. Tables, the page and JSON are three ways of writing it down.

Scores and shares are in millionths, money in nano-dollars; None is not measured, or unknown, and never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger.event import Fact
from ledger.money import NanoUSD
from projections.calibration import AxisReport, Corrected, Share
from projections.fidelity import Nearness
from projections.report import Report

SCALE = 1_000_000

Role = Literal["candidate", "world model", "judge", "embedder", "build", "calibration", "other"]


class Served(Fact):
    """A line of the report, with the share of passes raw and corrected for the judge's errors."""

    name: str
    counted: int
    excluded: int
    mean: int | None
    low: int | None
    high: int | None
    cost: NanoUSD | None
    cost_a_task: NanoUSD | None
    calls: int
    passed: int
    raw: Share | None
    corrected: Corrected


class Call(Fact):
    """A question that was asked for a cell, and its answer. Digests are those of ``exp show``."""

    role: str
    turn: int
    action: int
    attempt: int
    question: str
    reply: str
    cost: NanoUSD | None
    latency_us: int | None
    input_tokens: int | None
    output_tokens: int | None
    served_model: str | None


class Seen(Fact):
    """An action of a rollout and what came back; ``by`` says who answered: the world model, or the rules."""

    turn: int
    said: str
    tool: str
    arguments: str
    observation: str
    error: bool
    by: str


class Judged(Fact):
    """What a judge said on an axis: a score in millionths of a point, or why there is none; and its words."""

    axis: str
    score: int | None
    words: str
    problem: str
    reply: str


class Cell(Fact):
    """A rollout: what was done and seen, what the judge made of it, and which calls it took."""

    id: str
    task: str
    label: str
    part: Literal["fit", "held-out"]
    alias: str
    sample: int
    score: int | None
    reason: str | None
    problem: str
    ended: str | None
    cost: NanoUSD | None
    routed: bool
    turns: tuple[Seen, ...] = ()
    final: str | None = None
    judged: tuple[Judged, ...] = ()
    calls: tuple[Call, ...] = ()


class Asked(Fact):
    """A task by the id that cells have of it, the label of its trace, and its text."""

    id: str
    label: str
    part: Literal["fit", "held-out"]
    lineage: str
    text: str
    routed: str | None
    why: str | None


class Calibrated(Fact):
    """The calibration that scores are read by: the newest approved one; ``missing`` says why there is none."""

    id: str | None
    seq: int | None
    axes: tuple[AxisReport, ...]
    keys: dict[str, str]
    missing: str


class Spent(Fact):
    """What a part cost. ``settled`` is known, ``ambiguous`` the worst case of calls whose cost nobody knows.

    ``unpriced`` calls were answered without a word about their cost; ``unanswered`` ones failed or were lost.
    """

    part: Role
    alias: str
    run: str
    own: bool
    calls: int
    settled: NanoUSD
    ambiguous: NanoUSD
    unpriced: int
    unanswered: int
    input_tokens: int | None
    output_tokens: int | None


class Resembled(Fact):
    """How near one way of answering comes to what held-out traces recorded; ``missing`` says why it isn't measured."""

    way: Literal["constant", "best retrieved", "world model"]
    steps: Literal["recorded", "reached"]
    lineages: int
    nearness: Nearness | None
    missing: str = ""


class Origin(Fact):
    """Something that the report rests on, and the digest, id or place that names it."""

    what: str
    name: str


class Sheet(Fact):
    """All of it. ``evidence`` says what was read: cells, imported outcomes, or the report alone where both are gone."""

    run: str
    project: str
    report_id: str
    policy: str
    incumbent: str
    candidates: tuple[str, ...]
    report: Report
    summary: tuple[str, ...]
    notes: tuple[str, ...]
    lines: tuple[Served, ...]
    tasks: tuple[Asked, ...]
    cells: tuple[Cell, ...]
    calibration: Calibrated
    spent: tuple[Spent, ...]
    fidelity: tuple[Resembled, ...]
    provenance: tuple[Origin, ...]
    evidence: Literal["cells", "outcomes", "report"] = "cells"
    scale: int = SCALE
    money: str = "nano-dollars"
    missing: dict[str, str] = msgspec.field(default_factory=dict)
