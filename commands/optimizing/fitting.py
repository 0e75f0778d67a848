"""Fitting a router on imported outcomes: no provider is asked, and everything follows from the recorded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from commands.optimizing import planning, refusals
from commands.optimizing.freezing import JSON, Frozen, measured, notes_on, turned
from commands.outcome_tables import recorded_rows
from ledger import canonical, digests
from ledger.event import Blobs, Step
from ledger.families import outcomes, policies
from ledger.families.cells import Outcome
from ledger.families.outcomes import FitInputs, OutcomeImported, RouterFittingStarted, StartFitting
from ledger.families.policies import FreezePolicy, PolicyFrozen, ReportPublished
from projections import features, policy

if TYPE_CHECKING:
    from ledger.journal import Journal

SCALE = 1_000_000
VERSIONS = ("outcomes@1", "scoreboard@1", "features@2", "policy@3", "report@3")


class _Text(msgspec.Struct):
    prompt: str


class Split(NamedTuple):
    """The rows to fit on and those to measure on; ``dropped`` ones could have been fitted on but for their lineage."""

    fit: tuple[OutcomeImported, ...]
    held_out: tuple[OutcomeImported, ...]
    dropped: int


def checked(state: outcomes.Outcomes, inputs: FitInputs) -> FitInputs:
    """Return inputs that can be fitted, or refuse by name what is missing in them."""
    tables = state.known(inputs.project, held_out=True) | state.known(inputs.project, held_out=False)
    known = sorted({model for name in (*inputs.tables, *inputs.held_out) for model in tables[name].models})
    candidates = inputs.candidates or tuple(known)
    gaps = [f"{alias} is in no table (there are: {', '.join(known)})" for alias in candidates if alias not in known]
    gaps += [
        f"candidate {alias} is there twice" for alias in sorted({a for a in candidates if candidates.count(a) > 1})
    ]
    gaps += planning.report_names(candidates)
    if inputs.incumbent not in candidates:
        gaps.append(f"the incumbent {inputs.incumbent} is no candidate: --candidate {inputs.incumbent}")
    if not inputs.tables:
        gaps.append(f"nothing is left to fit on: exp import outcomes FILE --project {inputs.project}")
    if gaps:
        raise refusals.OptimizationGaps(gaps)
    return msgspec.structs.replace(inputs, candidates=candidates)


def split(journal: Journal, inputs: FitInputs) -> Split:
    """Return which rows are fitted on. Lineages stay whole, and one that is measured on is in no fit row."""
    rows = [row for table in inputs.tables for row in recorded_rows(journal, inputs.project, table)]
    rows = list({row.row: row for row in rows}.values())
    if inputs.held_out:
        held = [row for table in inputs.held_out for row in recorded_rows(journal, inputs.project, table)]
        held = list({row.row: row for row in held}.values())
        apart = {row.lineage for row in held}
        fit = [row for row in rows if row.lineage not in apart]
        return Split(tuple(fit), tuple(held), len(rows) - len(fit))
    lineages = sorted({row.lineage for row in rows}, key=_drawn)
    apart = set(lineages[: len(lineages) * inputs.share // SCALE])
    return Split(
        tuple(row for row in rows if row.lineage not in apart), tuple(row for row in rows if row.lineage in apart), 0
    )


def _drawn(lineage: str) -> str:
    return digests.content_digest(f"held-out:{lineage}".encode())


def fitted(journal: Journal, inputs: FitInputs) -> tuple[Frozen, tuple[Outcome, ...]]:
    """Return the result that the recorded rows lead to, and the outcomes it was measured on."""
    parts = split(journal, inputs)
    for part, rows in (("fit", parts.fit), ("held-out", parts.held_out)):
        if not rows:
            raise refusals.NoTasks(inputs.project, part)
    cells = tuple(_outcomes(parts.fit, "fit", inputs)) + tuple(_outcomes(parts.held_out, "held-out", inputs))
    fit = [cell for cell in cells if cell.part == "fit"]
    if not any(cell.alias == inputs.incumbent and cell.score is not None for cell in fit):
        raise refusals.IncumbentUncovered(inputs.incumbent, len(parts.fit), {"a missing cell": len(parts.fit)})
    made = turned(_evidence(journal, inputs, parts, fit), inputs.target_quality, inputs.target_cost)
    vectors = features.task_features(_texts(journal, parts.held_out), ())
    names = [row.row for row in parts.held_out]
    return measured(made, inputs.candidates, names, vectors, cells), cells


def _outcomes(rows: Sequence[OutcomeImported], part: Literal["fit", "held-out"], inputs: FitInputs) -> list[Outcome]:
    return [
        Outcome(
            task=row.row,
            lineage=row.lineage,
            part=part,
            alias=one.model,
            sample=0,
            score=one.score,
            reason=None,
            problem="",
            ended=None,
            cost=one.cost,
            model_calls=1,
            evidence="",
        )
        for row in rows
        for one in row.results
        if one.model in inputs.candidates and one.score is not None
    ]


def _texts(journal: Journal, rows: Sequence[OutcomeImported]) -> list[str]:
    contents = journal.blobs([row.text.blob for row in rows])
    return [msgspec.json.decode(contents[row.text.blob], type=_Text).prompt for row in rows]


def _evidence(journal: Journal, inputs: FitInputs, parts: Split, fit: Sequence[Outcome]) -> policy.Policy:
    vectors = features.task_features(_texts(journal, parts.fit), ())
    scores: dict[str, dict[str, int | None]] = {}
    for cell in fit:
        scores.setdefault(cell.task, {})[cell.alias] = cell.score
    rows = tuple(
        policy.Row(
            task=row.row,
            lineage=row.lineage,
            vector=policy.packed(vector),
            scores=tuple(scores.get(row.row, {}).get(alias) for alias in inputs.candidates),
            evidence=(),
        )
        for row, vector in zip(parts.fit, vectors, strict=True)
    )
    candidates = tuple(_candidate(alias, [cell for cell in fit if cell.alias == alias]) for alias in inputs.candidates)
    notes = list(notes_on(inputs.incumbent, candidates, fit))
    if parts.dropped:
        notes.append(f"left out: {parts.dropped} rows share a prompt or lineage with rows that are held out")
    return policy.Policy(
        version=policy.VERSION,
        features=features.VERSION,
        project=inputs.project,
        build="+".join(inputs.tables),
        setup="imported outcomes",
        incumbent=inputs.incumbent,
        dial=_dial(inputs),
        candidates=candidates,
        rows=rows,
        notes=tuple(notes),
    )


def _dial(inputs: FitInputs) -> policy.Dial:
    if inputs.price is not None:
        return policy.Price(nano_usd=inputs.price)
    return policy.Tolerance(millionths=inputs.tolerance or 0)


def _candidate(alias: str, cells: Sequence[Outcome]) -> policy.Candidate:
    costs = [cell.cost for cell in cells if cell.cost is not None]
    return policy.Candidate(
        alias=alias, endpoint="", cost=sum(costs) if len(costs) == len(cells) else None, cells=len(cells)
    )


def fit_router(journal: Journal, inputs: FitInputs) -> tuple[Frozen, tuple[Outcome, ...], bool]:
    """Fit, and publish what isn't published; return the result, its outcomes, and whether it was there before."""
    started = RouterFittingStarted(run=inputs.run, inputs=inputs)
    frozen, cells = fitted(journal, inputs)
    known = journal.find(ReportPublished, inputs.run)
    blobs = Blobs()
    command = publishing(inputs, frozen, blobs)
    if known is not None and known.event != command.report:
        raise refusals.ReplayDiffers(known.seq, known.kind, "the recorded rows lead to another result")
    journal.submit(
        Step(outcomes.FAMILY, StartFitting(started=started)), Step(policies.FAMILY, command), blobs=blobs
    ).result()
    return frozen, cells, known is not None


def publishing(inputs: FitInputs, frozen: Frozen, blobs: Blobs) -> FreezePolicy:
    """Return the command that publishes a result."""
    common: Mapping[str, str] = {"project": inputs.project, "run": inputs.run, "policy": frozen.policy.id}
    return FreezePolicy(
        policy=PolicyFrozen(**common, content=blobs.put(policy.encode(frozen.policy), JSON)),
        report=ReportPublished(
            **common, report=frozen.report.id, content=blobs.put(canonical.encode(frozen.report), JSON)
        ),
    )
