from __future__ import annotations

import pytest

from ledger.event import Event
from ledger.families import budget
from ledger.families.budget import Budget, BudgetSet, CeilingAboveBudget, SetBudget, ceiling_in_force
from ledger.money import NANO


def decided(ceiling: int, state: Budget) -> tuple[object, ...]:
    return budget.decide(SetBudget(ceiling=ceiling), state, lambda kind, key: None)


def test_the_ceiling_is_ten_dollars_until_it_is_set() -> None:
    assert budget.FAMILY.initial().ceiling == 10 * NANO


def test_setting_what_is_set_changes_nothing() -> None:
    assert decided(10 * NANO, Budget()) == ()
    (event,) = decided(75 * NANO, Budget())
    assert event == BudgetSet(ceiling=75 * NANO)
    assert isinstance(event, BudgetSet)
    assert event.stream == "budget"
    state = budget.evolve(Budget(), event)
    assert state.ceiling == 75 * NANO
    assert decided(75 * NANO, state) == ()


def test_other_events_change_nothing() -> None:
    assert budget.evolve(Budget(), Event()) == Budget()


def test_the_lower_of_budget_and_flag_is_in_force() -> None:
    assert ceiling_in_force(Budget(), None) == 10 * NANO
    assert ceiling_in_force(Budget(), 5 * NANO) == 5 * NANO
    assert ceiling_in_force(Budget(), 10 * NANO) == 10 * NANO


def test_a_flag_above_the_budget_is_refused_naming_the_command_that_raises_it() -> None:
    with pytest.raises(CeilingAboveBudget) as refused:
        ceiling_in_force(Budget(), 60 * NANO)
    assert "exp config budget 60.00" in refused.value.remedy
