"""Policies: optimizations that were started, and the policy and report that each one froze."""

from __future__ import annotations

import msgspec

from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD


class PolicyWanted(Refusal, name="policy-wanted", exit_code=68):
    """A project is to be served or read and has no policy yet."""

    def __init__(self, project: str) -> None:
        super().__init__(
            f"project {project} has no policy yet",
            where="the journal",
            remedy=f"run `exp optimize router {project} --candidate ... --incumbent ...` to its end",
        )


class Rival(Fact):
    """A candidate as an optimization froze it: digest of what decides its answers, where it is asked, its prices."""

    alias: str
    endpoint: str
    base_url: str
    prices: tuple[NanoUSD | None, ...]


class Inputs(Fact, omit_defaults=True):
    """All that decides an optimization's result. With a price or a target the tolerance decides nothing."""

    project: str
    build: str
    setup: str
    world_model: str
    rivals: tuple[Rival, ...]
    incumbent: str
    maximum_model_calls: int
    tolerance: int
    versions: tuple[str, ...]
    price: NanoUSD | None = None
    target_quality: int | None = None
    target_cost: NanoUSD | None = None
    samples: int = 1


@event("optimization-started@1")
class OptimizationStarted(Event):
    """An optimization with its frozen inputs, whose digest names the run, and its cells in order."""

    run: str
    inputs: Inputs
    cells: tuple[str, ...]

    @property
    def stream(self) -> str:
        """One stream an optimization."""
        return f"optimization:{self.run}"

    @property
    def key(self) -> str | None:
        """An optimization starts once."""
        return self.run


@event("policy-frozen@1")
class PolicyFrozen(Event):
    """A policy: its id digests ``content``, from which requests are routed."""

    project: str
    run: str
    policy: str
    content: BlobRef

    @property
    def stream(self) -> str:
        """One stream a project; the last one is in force."""
        return f"policy:{self.project}"

    @property
    def key(self) -> str | None:
        """An optimization freezes one policy."""
        return self.run


@event("report-published@1")
class ReportPublished(Event):
    """What a policy is worth on held-out tasks: the id digests ``content``."""

    project: str
    run: str
    policy: str
    report: str
    content: BlobRef

    @property
    def stream(self) -> str:
        """One stream a project."""
        return f"report:{self.project}"

    @property
    def key(self) -> str | None:
        """An optimization publishes one report."""
        return self.run


class Policies(msgspec.Struct):
    """Optimizations by run, and the policy in force by project."""

    started: dict[str, OptimizationStarted] = msgspec.field(default_factory=dict)
    frozen: dict[str, PolicyFrozen] = msgspec.field(default_factory=dict)
    published: dict[str, ReportPublished] = msgspec.field(default_factory=dict)
    in_force: dict[str, PolicyFrozen] = msgspec.field(default_factory=dict)

    def policy(self, project: str) -> PolicyFrozen:
        """Return the policy in force; PolicyWanted when there is none."""
        frozen = self.in_force.get(project)
        if frozen is None:
            raise PolicyWanted(project)
        return frozen


class StartOptimization(Command):
    """Say what is to be optimized."""

    started: OptimizationStarted


class FreezePolicy(Command):
    """Publish the policy and its report together."""

    policy: PolicyFrozen
    report: ReportPublished


def decide(command: StartOptimization | FreezePolicy, state: Policies, found: Found) -> tuple[Event, ...]:
    """Return what isn't recorded yet; other facts under the same run are left to the journal to refuse."""
    del found
    if isinstance(command, StartOptimization):
        return () if state.started.get(command.started.run) == command.started else (command.started,)
    recorded = state.frozen.get(command.policy.run), state.published.get(command.report.run)
    return () if recorded == (command.policy, command.report) else (command.policy, command.report)


def evolve(state: Policies, event: Event) -> Policies:
    """Fold one event."""
    if isinstance(event, OptimizationStarted):
        state.started[event.run] = event
    elif isinstance(event, PolicyFrozen):
        state.frozen[event.run] = event
        state.in_force[event.project] = event
    elif isinstance(event, ReportPublished):
        state.published[event.run] = event
    return state


def wanted(state: Policies) -> tuple[str, ...]:
    """Return the optimizations that were started and have no report yet."""
    return tuple(run for run in state.started if run not in state.published)


FAMILY = Family(
    name="policies",
    kinds=(OptimizationStarted, PolicyFrozen, ReportPublished),
    initial=Policies,
    decide=decide,
    evolve=evolve,
)
