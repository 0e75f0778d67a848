"""Budget: the most that one command may spend."""

from __future__ import annotations

import msgspec

from ledger.errors import Refusal
from ledger.event import Command, Event, Family, Found, event
from ledger.money import NANO, NanoUSD, usd

DEFAULT_CEILING: NanoUSD = 10 * NANO


class CeilingAboveBudget(Refusal, name="ceiling-above-budget", exit_code=25):
    """A command's own ceiling is higher than the budget for one command."""

    def __init__(self, asked: NanoUSD, ceiling: NanoUSD) -> None:
        super().__init__(
            f"the ceiling asked for is {usd(asked)}, the budget for one command is {usd(ceiling)}; nothing was called",
            where="the command's cost flag",
            remedy=f"run `exp config budget {usd(asked).removeprefix('$')}` first, or ask for at most {usd(ceiling)}",
        )


@event("budget-set@1")
class BudgetSet(Event):
    """The ceiling for one command, from now on."""

    ceiling: NanoUSD

    @property
    def stream(self) -> str:
        """There is one budget."""
        return "budget"


class SetBudget(Command):
    """Set the ceiling for one command."""

    ceiling: NanoUSD


class Budget(msgspec.Struct):
    """The ceiling in force."""

    ceiling: NanoUSD = DEFAULT_CEILING


def evolve(state: Budget, event: Event) -> Budget:
    """Fold one event."""
    if isinstance(event, BudgetSet):
        state.ceiling = event.ceiling
    return state


def decide(command: SetBudget, state: Budget, found: Found) -> tuple[Event, ...]:
    """Return the change, if it is one."""
    del found
    return () if command.ceiling == state.ceiling else (BudgetSet(ceiling=command.ceiling),)


def ceiling_in_force(state: Budget, flag: NanoUSD | None) -> NanoUSD:
    """Return the lower of the budget and a command's own flag; CeilingAboveBudget when the flag is higher."""
    if flag is None:
        return state.ceiling
    if flag > state.ceiling:
        raise CeilingAboveBudget(flag, state.ceiling)
    return flag


FAMILY = Family(name="budget", kinds=(BudgetSet,), initial=Budget, decide=decide, evolve=evolve)
