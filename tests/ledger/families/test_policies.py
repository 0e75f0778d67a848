"""Policies: an optimization starts once, and freezes one policy and one report."""

from __future__ import annotations

import pytest

from ledger.event import BlobRef, Event
from ledger.families import policies
from ledger.families.policies import (
    FreezePolicy,
    Inputs,
    OptimizationStarted,
    Policies,
    PolicyFrozen,
    PolicyWanted,
    ReportPublished,
    StartOptimization,
)

CONTENT = BlobRef(blob="b3:" + "0" * 64, size=1, media="application/json")


def started(run: str) -> StartOptimization:
    inputs = Inputs(
        project="p",
        build="b",
        setup="s",
        world_model="w",
        rivals=(),
        incumbent="a",
        maximum_model_calls=3,
        tolerance=1,
        versions=(),
    )
    return StartOptimization(started=OptimizationStarted(run=run, inputs=inputs, cells=("c1",)))


def freeze(run: str, policy: str = "policy-1") -> FreezePolicy:
    return FreezePolicy(
        policy=PolicyFrozen(project="p", run=run, policy=policy, content=CONTENT),
        report=ReportPublished(project="p", run=run, policy=policy, report="report-1", content=CONTENT),
    )


def nothing(kind: str, key: str) -> Event | None:
    del kind, key
    return None


def decided(state: Policies, *commands: StartOptimization | FreezePolicy) -> Policies:
    for command in commands:
        for event in policies.decide(command, state, nothing):
            state = policies.evolve(state, event)
    return state


@pytest.mark.parametrize("command", [started("r1"), freeze("r1")])
def test_a_repeated_command_appends_nothing(command: StartOptimization | FreezePolicy) -> None:
    state = decided(Policies(), command)
    assert policies.decide(command, state, nothing) == ()


def test_another_policy_of_the_same_run_is_left_to_the_journal_to_refuse() -> None:
    state = decided(Policies(), freeze("r1"))
    assert len(policies.decide(freeze("r1", "policy-2"), state, nothing)) == 2


def test_an_optimization_is_wanted_until_its_report_is_published() -> None:
    state = decided(Policies(), started("r1"), started("r2"), freeze("r1"))
    assert policies.wanted(state) == ("r2",)


def test_the_last_frozen_policy_is_in_force() -> None:
    state = decided(Policies(), freeze("r1"), freeze("r2", "policy-2"))
    assert state.policy("p").policy == "policy-2"


def test_a_project_without_a_policy_is_told_how_to_get_one() -> None:
    with pytest.raises(PolicyWanted) as refused:
        Policies().policy("p")
    assert "exp optimize router p" in refused.value.remedy


def test_runs_in_another_order_give_the_same_reading() -> None:
    one = decided(Policies(), started("r1"), started("r2"))
    other = decided(Policies(), started("r2"), started("r1"))
    assert one == other
