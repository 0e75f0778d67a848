"""A router that was fitted on imported outcomes, fitted again from the recorded rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import msgspec

from commands.replaying.runs import OtherRelease, PlanIncomplete
from commands.replaying.verdicts import Subject, Verdict
from ledger import canonical
from ledger.differences import first_difference
from ledger.families.outcomes import OutcomesImported, RouterFittingStarted, table_key
from ledger.families.policies import PolicyFrozen, ReportPublished
from projections import policy

if TYPE_CHECKING:
    from commands.optimizing.freezing import Frozen
    from ledger.journal import Journal
    from ledger.recorded import Recorded


def replay_fitting(journal: Journal, record: Recorded) -> list[Verdict]:
    """Return whether the recorded rows give the policy and the report that were published."""
    from commands.optimizing import fitting  # noqa: PLC0415 - loaded when there is one

    started = cast("RouterFittingStarted", record.event)
    inputs = started.inputs
    frozen, published = journal.find(PolicyFrozen, started.run), journal.find(ReportPublished, started.run)
    if frozen is None or published is None:
        raise PlanIncomplete(started.run, "its policy or its report")
    for tables, held_out in ((inputs.tables, False), (inputs.held_out, True)):
        for table in tables:
            if journal.find(OutcomesImported, table_key(inputs.project, table, held_out=held_out)) is None:
                raise PlanIncomplete(started.run, f"the table {table}")
    if inputs.versions != fitting.VERSIONS:
        raise OtherRelease(started.run, inputs.versions, fitting.VERSIONS, record.actor)
    run = Subject("run", started.run, inputs.project)
    if inputs.run != started.run:
        return [run.differs("its inputs have another name", [record.seq])]
    derived, _ = fitting.fitted(journal, inputs)
    return [run.identical(), *_published((frozen, published), derived, journal)]


def _published(records: tuple[Recorded, Recorded], derived: Frozen, journal: Journal) -> Iterator[Verdict]:
    frozen, published = cast("PolicyFrozen", records[0].event), cast("ReportPublished", records[1].event)
    for subject, content, made, name, record in (
        (
            Subject("policy", frozen.policy, frozen.project),
            frozen.content,
            policy.encode(derived.policy),
            derived.policy.id,
            records[0],
        ),
        (
            Subject("report", published.report, published.project),
            published.content,
            canonical.encode(derived.report),
            derived.report.id,
            records[1],
        ),
    ):
        recorded = msgspec.json.decode(journal.blob(content.blob))
        verdict = subject.compared(recorded, msgspec.json.decode(made), lambda _, seq=record.seq: [seq])  # type: ignore[misc]  # bound now
        if verdict.status == "identical" and (difference := first_difference({"id": subject.id}, {"id": name})):
            verdict = subject.differs("its content has another name", [record.seq], difference)
        yield verdict
