"""Estimates: the most that a plan may cost, in parts, computed in this one place.

A byte counts as a token (no tokenizer makes more tokens than bytes), inputs take the model's dearest input price, and
outputs their limits. A plan is a check before anything is called; money is set aside for each call by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ledger.canonical import GREATEST_INTEGER
from ledger.errors import Refusal
from ledger.families.calls import PriceUnknown
from ledger.families.providers import Capabilities, Endpoint
from ledger.money import NanoUSD, cost, usd
from ledger.prompt import Usage

OBSERVATION_BYTES = 8_000
EVIDENCE_BYTES = 32_000
JUDGE_OUTPUT = 16_384
CANDIDATE_OUTPUT = 8_000
WORLD_MODEL_OUTPUT = 2_000
WORLD_MODEL_ATTEMPTS = 3
ATTEMPTS = 2
CENT: NanoUSD = 10_000_000
PROCEEDS_WITHIN = 2  # at most ceiling / 2 needs no --yes


class PlanNeedsYes(Refusal, name="plan-needs-yes", exit_code=27):
    """A plan may cost more than half of its ceiling, and nobody agreed to it."""

    def __init__(self, worst_case: NanoUSD, ceiling: NanoUSD) -> None:
        super().__init__(
            f"this needs up to {usd(worst_case)}, more than half of the ceiling of {usd(ceiling)}; nothing was called",
            where="the plan of this command",
            remedy="add --yes to agree to it",
        )


class PlanAboveCeiling(Refusal, name="plan-above-ceiling", exit_code=28):
    """A plan may cost more than its ceiling."""

    def __init__(self, worst_case: NanoUSD, ceiling: NanoUSD, flag: str, budget: NanoUSD | None = None) -> None:
        enough = usd(worst_case).removeprefix("$")
        first = f"run `exp config budget {enough}`, then " if budget is not None and worst_case > budget else ""
        cents = -(-worst_case // CENT) * CENT
        enlarge = f"{first}use {flag} {enough}\nor " if cents <= GREATEST_INTEGER else ""
        super().__init__(
            f"this needs up to {usd(worst_case)} and the ceiling is {usd(ceiling)}; nothing was called",
            where="the plan of this command; --yes doesn't help",
            remedy=f"{enlarge}make the worst case smaller: fewer tasks, candidates or calls, or models with lower "
            "prices, maximum_output_tokens or context_window_tokens",
        )


class Part(msgspec.Struct, frozen=True):
    """One line of a plan: calls, the tokens they may read and write, and what that costs; None is unknown."""

    label: str
    calls: int
    input_tokens: int
    output_tokens: int
    nano: NanoUSD | None

    def __str__(self) -> str:
        """Return the line as it is printed."""
        price = "unknown price" if self.nano is None else usd(self.nano)
        return (
            f"{self.label}: {price} ({self.calls:,} calls, {self.input_tokens:,} tokens in, {self.output_tokens:,} out)"
        )


class Estimate(msgspec.Struct, frozen=True):
    """A plan's parts."""

    parts: tuple[Part, ...]

    @property
    def total(self) -> NanoUSD | None:
        """The worst case of the whole; None when a price is unknown."""
        known = [part.nano for part in self.parts if part.nano is not None]
        return sum(known) if len(known) == len(self.parts) else None

    @property
    def calls(self) -> int:
        """The most calls."""
        return sum(part.calls for part in self.parts)


def dearest_input(able: Capabilities) -> NanoUSD | None:
    """Return the dearest price that input may be charged at; None when the input price is unknown."""
    if able.input_price is None:
        return None
    return max(able.input_price, able.cached_input_price or 0, able.cache_write_price or 0)


def worst_case(endpoint: Endpoint, input_bytes: int, output_limit: int) -> NanoUSD | None:
    """Return the most that one call may cost; None when a price is unknown. Embeddings write no tokens."""
    able = endpoint.capabilities
    reading, writing = dearest_input(able), able.output_price
    if not output_limit:
        writing = 0
    if reading is None or writing is None:
        return None
    return cost(input_bytes, reading) + cost(output_limit, writing)


def is_free(able: Capabilities) -> bool:
    """Tell whether every token is known to cost nothing."""
    if any((able.input_price, able.output_price, able.cached_input_price, able.cache_write_price)):
        return False
    return able.input_price is not None and (able.output_price is not None or not able.supports_completions)


def actual_cost(able: Capabilities, usage: Usage) -> NanoUSD | None:
    """Return what the counted tokens cost; None when a count or a price that matters is missing."""
    if is_free(able):
        return 0
    read, written = usage.input_tokens, usage.output_tokens
    if read is None or able.input_price is None:
        return None
    if written is None and able.supports_completions:
        return None
    cached = min(usage.cached_input_tokens or 0, read)
    stored = min(usage.cache_write_tokens or 0, read - cached)
    total = cost(read - cached - stored, able.input_price)
    total += cost(cached, able.input_price if able.cached_input_price is None else able.cached_input_price)
    total += cost(stored, able.input_price if able.cache_write_price is None else able.cache_write_price)
    if written:
        if able.output_price is None:
            return None
        total += cost(written, able.output_price)
    return total


def part(label: str, endpoint: Endpoint, calls: int, input_tokens: int, output_tokens: int) -> Part:
    """Return a part of a plan; tokens are those of all its calls together."""
    return Part(label, calls, input_tokens, output_tokens, worst_case(endpoint, input_tokens, output_tokens))


def sent_limit(endpoint: Endpoint, wanted: int) -> int:
    """Return the output limit that is sent: the one wanted, or the model's own where that is lower."""
    return min(wanted, endpoint.capabilities.maximum_output_tokens or wanted)


def embedding_part(endpoint: Endpoint, texts: Sequence[str]) -> Part:
    """Return the most that these texts' vectors may cost."""
    return part(f"embeddings by {endpoint.alias}", endpoint, len(texts), sum(len(text.encode()) for text in texts), 0)


def judge_part(endpoint: Endpoint, judgments: int, prompt_bytes: int) -> Part:
    """Return the most that judgments may cost: each two attempts over the longest evidence and the rubric's bytes."""
    calls = judgments * ATTEMPTS
    limit = sent_limit(endpoint, JUDGE_OUTPUT)
    return part(f"judge {endpoint.alias}", endpoint, calls, calls * (EVIDENCE_BYTES + prompt_bytes), calls * limit)


class Rollouts(msgspec.Struct, frozen=True):
    """How many rollouts of how many turns, and the bytes that every prompt begins with (task, tools, instructions)."""

    cells: int
    turns: int
    prompt_bytes: int
    example_bytes: int = 0


def candidate_part(endpoint: Endpoint, rollouts: Rollouts) -> Part:
    """Return the most that a candidate's turns may cost: each two attempts, each over all turns before it."""
    limit = sent_limit(endpoint, CANDIDATE_OUTPUT)
    calls = rollouts.cells * rollouts.turns * ATTEMPTS
    read = _read_in_turns(rollouts, limit) * ATTEMPTS
    return part(f"candidate {endpoint.alias}", endpoint, calls, read, calls * limit)


def world_model_part(endpoint: Endpoint, rollouts: Rollouts, action_tokens: int = CANDIDATE_OUTPUT) -> Part:
    """Return the most that simulated turns may cost: each up to three attempts, with examples and all turns before."""
    limit = sent_limit(endpoint, WORLD_MODEL_OUTPUT)
    calls = rollouts.cells * rollouts.turns * WORLD_MODEL_ATTEMPTS
    read = _read_in_turns(rollouts, action_tokens) + rollouts.cells * rollouts.turns * (
        rollouts.example_bytes + action_tokens
    )
    return part(f"world model {endpoint.alias}", endpoint, calls, read * WORLD_MODEL_ATTEMPTS, calls * limit)


def _read_in_turns(rollouts: Rollouts, action_tokens: int) -> int:
    """Return the tokens that all turns of all rollouts read: the prompt, and each earlier action and observation."""
    earlier = rollouts.turns * (rollouts.turns - 1) // 2
    return rollouts.cells * (rollouts.turns * rollouts.prompt_bytes + earlier * (action_tokens + OBSERVATION_BYTES))


def decide_plan(estimate: Estimate, ceiling: NanoUSD, *, yes: bool, flag: str, budget: NanoUSD | None = None) -> None:
    """Return when the plan may proceed: within half of the ceiling, or within the ceiling and agreed to.

    Otherwise refuse: PlanNeedsYes, PlanAboveCeiling (which names the flag that would suffice) or PriceUnknown.
    """
    total = estimate.total
    if total is None:
        unknown = next(part.label for part in estimate.parts if part.nano is None)
        raise PriceUnknown(unknown.rpartition(" ")[2])
    if total > ceiling:
        raise PlanAboveCeiling(total, ceiling, flag, budget)
    if total * PROCEEDS_WITHIN > ceiling and not yes:
        raise PlanNeedsYes(total, ceiling)
