"""The dial and samples of an optimization on cells: part of its inputs, and of the policy that follows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from commands.main import run
from commands.optimizing import planning
from commands.optimizing.planning import Request, Turned
from commands.optimizing.refusals import TargetUnmet
from ledger import canonical
from ledger.families.providers import Endpoint
from ledger.prompt import Question
from projections.policy import Price, Tolerance
from tests.commands.optimizing.planted import PROJECT, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "root", fit=12, held_out=4)


def asked(world: World, *, samples: int = 1, **turned: int) -> Request:
    return world.request()._replace(turned=Turned(**turned), samples=samples)


def test_an_optimization_without_a_dial_has_the_inputs_that_it_always_had(world: World) -> None:
    plain = msgspec.json.decode(canonical.encode(world.plan().started.inputs))
    assert not {"price", "target_quality", "target_cost", "samples"} & set(plain)
    assert plain["tolerance"] == planning.TOLERANCE


def test_another_dial_asks_nothing_anew_and_makes_another_policy(world: World) -> None:
    first = world.optimize()
    calls = world.asked
    priced = world.optimize(asked(world, price=10**9))
    tolerant = world.optimize(asked(world, tolerance=0))
    assert world.asked == calls
    assert priced.frozen.policy.dial == Price(nano_usd=10**9)
    assert tolerant.frozen.policy.dial == Tolerance(millionths=0)
    assert len({one.frozen.policy.id for one in (first, priced, tolerant)}) == 3


def test_a_target_is_met_on_fit_tasks_and_its_dial_frozen(world: World) -> None:
    found = world.optimize(asked(world, target_cost=30_000)).frozen.policy
    assert found.operating is not None
    assert found.operating.cost <= 30_000
    assert found.operating.dial == found.dial
    assert not found.kept
    good = world.optimize(asked(world, target_quality=900_000)).frozen.policy
    assert good.operating is not None
    assert good.operating.score >= 900_000
    with pytest.raises(TargetUnmet):
        world.optimize(asked(world, target_quality=1_000_000))


def test_a_replay_reads_dial_and_samples_from_the_inputs(world: World) -> None:
    request = asked(world, samples=2, target_quality=900_000)
    made = world.optimize(request)
    again = planning.request_of(world.plan(request).started.inputs)
    assert (again.turned.target_quality, again.samples) == (900_000, 2)
    assert world.plan(again).run == world.plan(request).run
    assert world.replay(request).frozen.policy.id == made.frozen.policy.id


def test_samples_are_rollouts_of_their_own_put_together_a_task(world: World) -> None:
    one = world.optimize()
    calls = world.asked
    three = world.optimize(asked(world, samples=3))
    assert world.asked > 2 * calls  # the first sample of each cell was there
    assert len(three.outcomes) == 3 * len(one.outcomes)
    report = three.frozen.report
    assert (report.tasks, report.line("dear").counted) == (4, 4)
    assert {spread.samples for spread in report.spreads} == {12}
    assert len(report.spreads[0].pass_all) == 3
    assert report.spreads[0].within == 0
    assert [row.scores for row in three.frozen.policy.rows] == [row.scores for row in one.frozen.policy.rows]


def test_samples_count_as_judgments(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.journal.close()
    words = ["optimize", "router", PROJECT, "--candidate", "cheap", "--candidate", "dear", "--incumbent", "dear"]
    words += ["--root", str(world.root), "--samples", "3", "--maximum-judgments", "95"]
    assert run(words) == 67
    assert "--maximum-judgments 96" in capsys.readouterr().err


def test_a_dial_is_given_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.journal.close()
    words = ["optimize", "router", PROJECT, "--incumbent", "dear", "--root", str(world.root)]
    assert run([*words, "--tolerance", "0.1", "--target-quality", "0.5"]) == 2
    assert "give one of" in capsys.readouterr().err


def test_a_fit_task_counts_with_the_mean_of_its_samples(world: World) -> None:
    seen: Counter[tuple[str, str]] = Counter()

    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | None:
        del question
        if endpoint.alias == "judge":
            final = json.loads(asked["messages"][1]["content"])["evidence"]["final"]
            return json.dumps({"axes": {"task-success": {"score": int(final[-1]) % 2, "rationale": "by turns"}}})
        if endpoint.alias in {"cheap", "dear"} and asked["messages"][-1]["role"] == "tool":
            place = endpoint.alias, asked["messages"][1]["content"]
            seen[place] += 1
            return f"through, time {seen[place]}"
        return None

    world.says = says
    found = world.optimize(asked(world, samples=2))
    assert {row.scores for row in found.frozen.policy.rows} == {(500_000, 500_000)}
