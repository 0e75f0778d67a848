"""An optimization, derived again from its recorded answers: plan, cells, policy and report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from commands.judging import Judge
from commands.optimizing import planning
from commands.optimizing.planning import Cast, Plan
from commands.optimizing.rollout import Part, Scene
from commands.optimizing.running import rederived
from commands.readings import Build, recorded_build
from commands.replaying.calibrations import recorded_setup
from commands.replaying.verdicts import Subject, Verdict
from ledger import canonical
from ledger.differences import first_difference
from ledger.errors import Refusal
from ledger.families.builds import BuildCompleted
from ledger.families.cells import Cell, CellExcluded, CellFinished, CellOpened
from ledger.families.judging import JudgmentRecorded
from ledger.families.outcomes import RouterFittingStarted
from ledger.families.policies import OptimizationStarted, PolicyFrozen, ReportPublished
from projections import policy

if TYPE_CHECKING:
    from commands.optimizing.freezing import Frozen
    from commands.perform.replaying import Replaying
    from commands.replaying.endpoints import Endpoints
    from ledger.families.policies import Inputs
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.recorded import Recorded

_PLACE = re.compile(r"/(rows|candidates|routed|exclusions)/([0-9]+)(?:/(?:scores|evidence)/([0-9]+))?")


class OtherRelease(Refusal, name="other-release", exit_code=212):
    """A result was computed by rules that this release doesn't have."""

    def __init__(self, run: str, recorded: Sequence[str], known: Sequence[str], actor: str) -> None:
        super().__init__(
            f"{run} was computed by {', '.join(recorded)}, and this release computes by {', '.join(known)}",
            where=f"the inputs of {run}, recorded by {actor}",
            remedy=f"replay it with the release that made it: {actor}",
        )


class PlanIncomplete(Refusal, name="plan-incomplete", exit_code=213):
    """What an optimization started from isn't in the journal."""

    def __init__(self, run: str, what: str) -> None:
        super().__init__(
            f"{run} can't be planned again: {what} isn't recorded",
            where="ledger.db",
            remedy="run `exp check --full`; an imported bundle brings it along, so import it again",
        )


def planned_again(journal: Journal, endpoints: Endpoints, record: Recorded) -> Plan:
    """Return the plan that this release makes of what was asked for; OtherRelease when it has other rules."""
    started = cast("OptimizationStarted", record.event)
    inputs = started.inputs
    plan = planning.assembled(planning.request_of(inputs), _cast(journal, endpoints, started), 0, 0)
    if plan.started.inputs.versions != inputs.versions:
        raise OtherRelease(started.run, inputs.versions, plan.started.inputs.versions, record.actor)
    return plan


def recorded_plan(journal: Journal, endpoints: Endpoints, record: Recorded) -> Plan:
    """Return the plan as it is recorded, cell by cell, whichever release made it."""
    started = started_in(record)
    cast_ = _cast(journal, endpoints, started)
    texts = {task.id: task.text for task in cast_.build.tasks}
    of_digest = {endpoint.digest: endpoint for endpoint in reversed(cast_.endpoints)}
    parts = []
    for name in started.cells:
        facts = _cell(journal, started, name)
        endpoint = of_digest[facts.candidate]
        parts.append(Part(facts, endpoint.alias, endpoint, texts[facts.task]))
    request = planning.request_of(started.inputs)
    return Plan(request, started, *cast_, tuple(parts), 0, 0)


def started_in(record: Recorded) -> OptimizationStarted:
    """Return how an optimization started; PlanIncomplete when only what it published is recorded."""
    event = record.event
    if isinstance(event, OptimizationStarted):
        return event
    elsewhere = isinstance(event, RouterFittingStarted)
    what = "a rollout (it was fitted on imported outcomes)" if elsewhere else "how it started"
    raise PlanIncomplete(cast("ReportPublished", event).run, what)


def _cast(journal: Journal, endpoints: Endpoints, started: OptimizationStarted) -> Cast:
    """Return who took part, from what was configured, built and approved when an optimization started."""
    inputs = started.inputs
    if not started.cells:
        raise PlanIncomplete(started.run, "any cell")
    cell = _cell(journal, started, started.cells[0])
    urls = dict(zip(("candidate", "world_model", "judge", "embedder"), cell.asked_at, strict=True))
    setup = recorded_setup(journal, inputs.project, inputs.setup)
    if setup is None:
        raise PlanIncomplete(started.run, f"the judge setup {inputs.setup}")
    build = _build(journal, started)
    return Cast(
        build=build,
        scene=Scene(
            tools=build.tools,
            world_model=endpoints.one("world model", cell.world_model, urls["world_model"])[0],
            judge=Judge(setup, endpoints.one("judge", setup.judge, urls["judge"])[0]),
            maximum_model_calls=inputs.maximum_model_calls,
        ),
        embedder=endpoints.one("embedder", cell.embedder, urls["embedder"])[0],
        endpoints=tuple(_candidates(endpoints, inputs)),
    )


def _cell(journal: Journal, started: OptimizationStarted, name: str) -> Cell:
    found = journal.find(CellOpened, name)
    if found is None:
        raise PlanIncomplete(started.run, f"its {name}")
    return cast("CellOpened", found.event).facts


def _build(journal: Journal, started: OptimizationStarted) -> Build:
    inputs = started.inputs
    for record in journal.events(BuildCompleted, stream=f"project:{inputs.project}"):
        if isinstance(record.event, BuildCompleted) and record.event.build == inputs.build:
            return recorded_build(journal, record.event)
    raise PlanIncomplete(started.run, f"the build {inputs.build}")


def _candidates(endpoints: Endpoints, inputs: Inputs) -> Iterator[Endpoint]:
    """Yield each candidate at its address and with the prices that it had then."""
    for rival in inputs.rivals:
        known = endpoints.one(f"candidate {rival.alias}", rival.endpoint, rival.base_url, alias=rival.alias)
        yield next((one for one in known if planning.prices_of(one) == rival.prices), known[0])


async def replay_run(journal: Journal, endpoints: Endpoints, perform: Replaying, record: Recorded) -> list[Verdict]:
    """Return whether the recorded answers give the plan, the policy and the report that were published."""
    started = started_in(record)
    frozen = journal.find(PolicyFrozen, started.run)
    published = journal.find(ReportPublished, started.run)
    if frozen is None or published is None:
        raise PlanIncomplete(started.run, "its policy or its report")
    plan = planned_again(journal, endpoints, record)
    run = Subject("run", started.run, started.inputs.project)
    planned = run.compared(_plain(started), _plain(plan.started), lambda _: [record.seq])
    if planned.status != "identical":
        return [planned]
    finished = await rederived(journal, plan, perform)
    return [planned, *_published(journal, plan, (frozen, published), finished.frozen)]


def _published(journal: Journal, plan: Plan, records: tuple[Recorded, Recorded], derived: Frozen) -> Iterator[Verdict]:
    frozen, published = cast("PolicyFrozen", records[0].event), cast("ReportPublished", records[1].event)
    project = plan.request.project
    for subject, content, made, record in (
        (Subject("policy", frozen.policy, project), frozen.content, policy.encode(derived.policy), records[0]),
        (Subject("report", published.report, project), published.content, canonical.encode(derived.report), records[1]),
    ):
        recorded = msgspec.json.decode(journal.blob(content.blob))
        names = {"id": subject.id}, {"id": derived.policy.id if subject.kind == "policy" else derived.report.id}
        verdict = subject.compared(recorded, msgspec.json.decode(made), _origins(journal, plan, recorded))
        if verdict.status == "identical" and (difference := first_difference(*names)):
            verdict = subject.differs("its content has another name", [record.seq], difference)
        yield verdict


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    return msgspec.json.decode(canonical.encode(value))


def _origins(journal: Journal, plan: Plan, content: dict[str, Any]) -> Callable[[str], Sequence[int]]:
    """Return what finds the events that a part of a policy or report comes from: those that closed its cells."""

    def origins(pointer: str) -> Sequence[int]:
        parts: Iterable[Part] = plan.parts
        found = _PLACE.match(pointer)
        if found is not None and int(found[2]) < len(content[found[1]]):
            row = content[found[1]][int(found[2])]
            if "task" in row:
                parts = [part for part in parts if part.cell.task == row["task"]]
            if found[1] == "candidates":
                parts = [part for part in parts if part.alias == row["alias"] and part.cell.part == "fit"]
            if found[3] is not None:
                alias = plan.request.candidates[int(found[3])]
                parts = [part for part in parts if part.alias == alias]
        return sorted(seq for part in parts for seq in closing(journal, part.cell.id))

    return origins


def closing(journal: Journal, cell: str) -> Iterator[int]:
    """Yield the positions of the events that closed a cell, and of its judgments."""
    for record in journal.events(CellFinished, CellExcluded, stream=f"cell:{cell}"):
        yield record.seq
    for record in journal.events(JudgmentRecorded, stream=f"judgment:{cell}"):
        yield record.seq
