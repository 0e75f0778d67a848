"""Which optimization a name means, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from commands.main import run
from commands.replaying.units import NameAmbiguous, NothingPublishedAs
from commands.reporting.meant import ReportChanged, RunWanted, meant
from commands.reporting.reading import read
from ledger import canonical
from ledger.event import Blobs, Step
from ledger.families import policies
from ledger.families.policies import FreezePolicy, PolicyFrozen, ReportPublished
from projections import report
from tests.commands.optimizing.planted import World
from tests.commands.reading import Journey


def name_of(root: Path, name: str) -> str:
    with meant(root, name) as found:
        return found.unit.names[0]


def test_a_run_goes_by_its_own_name_its_policy_s_its_report_s_or_its_project_s(journey: Journey) -> None:
    root = journey.root
    with meant(root, journey.ids["report"]) as found:
        whole = found.unit.names[0]
        project = found.unit.project
    assert whole.startswith("optimize-")
    assert {name_of(root, one) for one in (journey.ids["policy"][:20], whole[:16], whole, project)} == {whole}


@pytest.mark.parametrize("what", ["build", "calibration"])
def test_what_is_no_optimization_has_no_report(journey: Journey, what: str) -> None:
    with pytest.raises(RunWanted, match=f"is a {what}, and only optimizations have a report"):
        name_of(journey.root, journey.ids[what])


def test_a_name_that_nothing_has_and_one_that_several_have_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    world.optimize()
    world.optimize(world.request(turns=5))
    world.journal.close()
    with pytest.raises(NothingPublishedAs):
        name_of(world.root, "optimize-zzz")
    with pytest.raises(NameAmbiguous):
        name_of(world.root, "optimize-")


def test_what_was_imported_is_found_in_its_own_origin(journey: Journey, tmp_path: Path) -> None:
    bundle, arrived = tmp_path / "run.zip", tmp_path / "arrived"
    report_id = journey.ids["report"]
    assert run(["export", report_id, str(bundle), "--root", str(journey.root)]) == 0
    assert run(["import", str(bundle), "--root", str(arrived)]) == 0
    with meant(journey.root, report_id) as here, meant(arrived, report_id) as there:
        own, other = read(here), read(there)
    assert there.unit.record.origin != here.unit.record.origin
    assert other.cells == own.cells
    assert other.lines == own.lines
    assert other.calibration.id in {own.calibration.id, None}
    with pytest.raises(NothingPublishedAs):
        name_of(arrived, "optimize-zzz")


def published(world: World, content: bytes, name: str) -> None:
    blobs = Blobs()
    facts = {"project": "changed", "run": "optimize-changed", "policy": "policy-changed", "content": blobs.put(content)}
    command = FreezePolicy(policy=PolicyFrozen(**facts), report=ReportPublished(**facts, report=name))  # type: ignore[arg-type]
    world.journal.submit(Step(policies.FAMILY, command), blobs=blobs).result()
    world.journal.close()


def test_a_content_that_makes_another_id_is_no_report(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    made = world.optimize().frozen.report
    published(world, canonical.encode(msgspec.structs.replace(made, tasks=made.tasks + 1)), made.id)
    with pytest.raises(ReportChanged, match="makes another id"):
        name_of(world.root, "changed")


def test_a_content_of_another_shape_is_left_to_the_release_that_made_it(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    made = world.optimize().frozen.report
    published(world, json.dumps({"version": report.VERSION}).encode(), made.id)
    with pytest.raises(ReportChanged, match="can't be read by this release"):
        name_of(world.root, "changed")
