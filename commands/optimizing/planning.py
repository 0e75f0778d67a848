"""Planning an optimization: its frozen inputs, its cells, and what they may cost at most, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from commands.judging import Judge, read_judge
from commands.optimizing import asked, refusals
from commands.optimizing.rollout import Part, Scene
from commands.readings import Build, Task, read_build
from ledger import canonical, digests, estimates, questions
from ledger.families import budget, calls, cells, judging, policies, providers
from ledger.families.cells import Action, Cell
from ledger.families.policies import Inputs, OptimizationStarted, Rival
from ledger.prompt import Prompt

if TYPE_CHECKING:
    from ledger.families.providers import Endpoint, Providers
    from ledger.journal import Journal
    from ledger.money import NanoUSD

COST_FLAG = "--maximum-provider-cost-usd"
SAMPLE = 0  # the first one
VERSIONS = (asked.VERSION, "scoreboard@1", "features@2", "policy@3", "report@3")
TOLERANCE = 50_000


class Turned(NamedTuple):
    """How the dial is set; at most one is given. A target is met by the dial that does so on fit tasks."""

    tolerance: int | None = None
    price: NanoUSD | None = None
    target_quality: int | None = None
    target_cost: NanoUSD | None = None


class Request(NamedTuple):
    """What is asked for on the command line."""

    project: str
    candidates: tuple[str, ...]
    incumbent: str
    cost: NanoUSD | None
    judgments: int | None
    model_calls: int
    turned: Turned = Turned()
    samples: int = 1


def request_of(inputs: Inputs) -> Request:
    """Return the request that a recorded optimization answered."""
    return Request(
        project=inputs.project,
        candidates=tuple(rival.alias for rival in inputs.rivals),
        incumbent=inputs.incumbent,
        cost=None,
        judgments=None,
        model_calls=inputs.maximum_model_calls,
        turned=Turned(inputs.tolerance, inputs.price, inputs.target_quality, inputs.target_cost),
        samples=inputs.samples,
    )


class Cast(NamedTuple):
    """Who and what takes part in an optimization."""

    build: Build
    scene: Scene
    embedder: Endpoint
    endpoints: tuple[Endpoint, ...]


class Plan(NamedTuple):
    """An optimization that could start: everything that its result depends on."""

    request: Request
    started: OptimizationStarted
    build: Build
    scene: Scene
    embedder: Endpoint
    endpoints: tuple[Endpoint, ...]
    parts: tuple[Part, ...]
    ceiling: NanoUSD
    budget: NanoUSD

    @property
    def run(self) -> str:
        """The run's name: the digest of its inputs."""
        return self.started.run

    def owed(self, state: cells.Cells) -> tuple[Part, ...]:
        """Return the cells that aren't closed."""
        return tuple(part for part in self.parts if not state.closed(part.cell.id))


def plan(journal: Journal, request: Request) -> Plan:
    """Return the plan, or refuse by name what stands in its way; every gap is listed at once."""
    configured: Providers = journal.state(providers.FAMILY)
    ceilings: budget.Budget = journal.state(budget.FAMILY)
    ceiling = budget.ceiling_in_force(ceilings, request.cost)
    build = read_build(journal, request.project)
    judge = read_judge(journal, request.project)
    if gaps := tuple(_gaps(configured, build, request)):
        raise refusals.OptimizationGaps(gaps)
    for part in ("fit", "held-out"):
        if all(task.part != part for task in build.tasks):
            raise refusals.NoTasks(request.project, part)
    endpoints = tuple(configured.endpoint(alias) for alias in request.candidates)
    count = len(endpoints) * len(build.tasks) * request.samples
    if request.judgments is not None and count > request.judgments:
        raise refusals.JudgmentsAboveLimit(count, len(build.tasks), len(endpoints), request.judgments)
    scene = Scene(
        tools=build.tools,
        world_model=configured.endpoint(configured.world_model),
        judge=judge,
        maximum_model_calls=request.model_calls,
    )
    cast = Cast(build, scene, configured.endpoint(configured.embedder), endpoints)
    return assembled(request, cast, ceiling, ceilings.ceiling)


def assembled(request: Request, cast: Cast, ceiling: NanoUSD, budgeted: NanoUSD) -> Plan:
    """Return the plan that a request and its cast make; nothing else decides its inputs and cells."""
    build, scene, embedder, endpoints = cast
    parts = tuple(
        Part(_cell(build, scene, embedder, (task, sample), endpoint), endpoint.alias, endpoint, task.text)
        for task in build.tasks
        for endpoint in endpoints
        for sample in range(SAMPLE, SAMPLE + request.samples)
    )
    inputs = _inputs(build, scene, request, endpoints)
    named = digests.content_digest(canonical.digest_input("optimize-router", inputs, [part.cell.id for part in parts]))
    started = OptimizationStarted(
        run=f"optimize-{named[3:35]}", inputs=inputs, cells=tuple(part.cell.id for part in parts)
    )
    return Plan(request, started, build, scene, embedder, endpoints, parts, ceiling, budgeted)


def report_names(candidates: Iterable[str]) -> Iterator[str]:
    """Say which candidates have the name of a line that every report has."""
    for alias in sorted({"routed", "incumbent", "oracle"}.intersection(candidates)):
        yield f"a candidate can't be called {alias}: every report has a line of that name; configure another alias"


def _gaps(configured: Providers, build: Build, request: Request) -> Iterator[str]:
    if not request.candidates:
        yield "no candidate: --candidate ALIAS"
    for alias in sorted({alias for alias in request.candidates if request.candidates.count(alias) > 1}):
        yield f"candidate {alias} is there twice: give --candidate {alias} once"
    yield from report_names(request.candidates)
    known = ", ".join(sorted(configured.models)) or "none"
    for alias in dict.fromkeys((*request.candidates, request.incumbent)):
        model = configured.models.get(alias)
        if model is None:
            add = f'exp config providers --model-json \'{{"alias":"{alias}",...}}\''
            yield f"there is no model {alias} (there are: {known}): {add}"
        elif not model.capabilities.supports_completions:
            yield f"model {alias} lacks supports_completions: name another one with --candidate"
    if request.incumbent not in request.candidates:
        yield f"the incumbent {request.incumbent} is no candidate: --candidate {request.incumbent}"
    for role, digest in (("embedder", build.completed.embedder), ("world_model", build.completed.model)):
        alias = configured.roles.get(role)  # type: ignore[call-overload]  # any text may be looked up
        if alias is not None and configured.endpoint(alias).digest != digest:
            yield f"{role.replace('_', ' ')} {alias} isn't the one of the build: exp build {build.project} TRACES"


def _cell(build: Build, scene: Scene, embedder: Endpoint, place: tuple[Task, int], candidate: Endpoint) -> Cell:
    task, sample = place
    return Cell(
        project=build.project,
        build=build.id,
        task=task.id,
        lineage=task.lineage,
        part=task.part,
        candidate=candidate.digest,
        world_model=scene.world_model.digest,
        embedder=embedder.digest,
        setup=scene.judge.setup.id,
        maximum_model_calls=scene.maximum_model_calls,
        sample=sample,
        asked_at=tuple(
            questions.base_url(one) for one in (candidate, scene.world_model, scene.judge.endpoint, embedder)
        ),
        version=asked.VERSION,
    )


def _inputs(build: Build, scene: Scene, request: Request, endpoints: Sequence[Endpoint]) -> Inputs:
    return Inputs(
        project=build.project,
        build=build.id,
        setup=scene.judge.setup.id,
        world_model=scene.world_model.digest,
        rivals=tuple(
            Rival(
                alias=one.alias,
                endpoint=one.digest,
                base_url=questions.base_url(one),
                prices=prices_of(one),
            )
            for one in endpoints
        ),
        incumbent=request.incumbent,
        maximum_model_calls=request.model_calls,
        tolerance=TOLERANCE if request.turned.tolerance is None else request.turned.tolerance,
        price=request.turned.price,
        target_quality=request.turned.target_quality,
        target_cost=request.turned.target_cost,
        samples=request.samples,
        versions=VERSIONS,
    )


def prices_of(endpoint: Endpoint) -> tuple[NanoUSD | None, ...]:
    """Return a model's prices as an optimization freezes them."""
    able = endpoint.capabilities
    return (able.input_price, able.output_price, able.cached_input_price, able.cache_write_price)


def estimate(journal: Journal, made: Plan) -> estimates.Estimate:
    """Return the most that the owed cells may cost, beside what the run spent before."""
    owed = made.owed(journal.state(cells.FAMILY))
    spent = journal.state(calls.FAMILY).totals(made.run)
    parts = []
    if spent.calls:
        parts.append(estimates.Part("spent before", spent.calls, 0, 0, spent.committed))
    for endpoint in made.endpoints:
        mine = [part for part in owed if part.candidate is endpoint]
        if mine:
            parts.append(estimates.candidate_part(endpoint, _rollouts(made, mine, _candidate_bytes)))
    if owed:
        parts.append(
            estimates.world_model_part(
                made.scene.world_model, _rollouts(made, owed, _world_bytes, asked.EXAMPLES_BYTES)
            )
        )
        turns = len(owed) * made.scene.maximum_model_calls
        most = turns * estimates.OBSERVATION_BYTES
        parts.append(estimates.part(f"embeddings by {made.embedder.alias}", made.embedder, turns, most, 0))
        parts.append(estimates.judge_part(made.scene.judge.endpoint, len(owed), _judge_bytes(made.scene.judge)))
    return estimates.Estimate(tuple(parts))


def _rollouts(
    made: Plan, parts: Sequence[Part], size: Callable[[Plan, Part], int], examples: int = 0
) -> estimates.Rollouts:
    """Return the rollouts with the mean size of what their prompts begin with, rounded up."""
    total = sum(size(made, part) for part in parts)
    return estimates.Rollouts(
        cells=len(parts),
        turns=made.scene.maximum_model_calls,
        prompt_bytes=-(-total // len(parts)),
        example_bytes=examples,
    )


def _candidate_bytes(made: Plan, part: Part) -> int:
    prompt = Prompt(messages=tuple(asked.opening(part.task)), tools=made.scene.tools)
    return len(questions.question(part.candidate, prompt, sample=SAMPLE, output_limit=estimates.CANDIDATE_OUTPUT).body)


def _world_bytes(made: Plan, part: Part) -> int:
    prompt = asked.world_prompt(part.task, made.scene.tools, (), Action(tool="", arguments=""), ())
    return sum(len(str(message["content"]).encode()) for message in prompt.messages)


def _judge_bytes(judge: Judge) -> int:
    from ledger.episode import Episode  # noqa: PLC0415 - only here

    empty = judging.judge_prompt(judge.setup.rubric, Episode(task="", turns=(), final=None, ended="final"))
    return sum(len(str(message["content"]).encode()) for message in empty.messages)


def is_complete(journal: Journal, made: Plan) -> bool:
    """Tell whether the optimization has published its report."""
    state: policies.Policies = journal.state(policies.FAMILY)
    return made.run in state.published
