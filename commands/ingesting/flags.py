"""Flags of commands that read traces: the format of the input, and what is to be left out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ledger.detectors import Redaction, Rule
    from ledger.redaction import Redactor

F = TypeVar("F", bound=Callable[..., Any])

AUTO = "auto"
FORMATS = (  # as projections.normal_form.sources has them; a test compares, since --help doesn't load that
    "otlp",
    "otel-genai",
    "openinference",
    "phoenix",
    "traceloop",
    "langfuse",
    "langsmith",
    "braintrust",
    "posthog",
    "mastra",
    "langwatch",
    "inspect",
    "chat-json",
)


def source_option(function: F) -> F:
    """Pass ``source``, a format or ``auto``."""
    return click.option(
        "--source",
        type=click.Choice([AUTO, *FORMATS]),
        default=AUTO,
        show_default=True,
        help="Format of the input; auto tells it by its structure, and refuses when two fit.",
    )(function)


def redaction_options(function: F) -> F:
    """Pass ``redact`` and ``redact_rules``."""
    rules = click.option(
        "--redact-rules",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="TOML file of more shapes to leave out: [[rule]] with name and regex.",
    )
    names = click.option(
        "--redact",
        metavar="NAMES",
        help="What to leave out, each value with a placeholder of its own: none, keys, all, or some of"
        " api-key,token,private-key,email,phone,card. Without it, keys become [redacted].",
    )
    return names(rules(function))


def redacting(names: str | None, rules: Path | None, values: Redactor, origin: str) -> Redaction:
    """Return what is to be left out of inputs; refuses names and rules that can't be used."""
    from ledger.detectors import KEYS, Redaction, chosen  # noqa: PLC0415 - loaded when a command runs, not for --help

    detectors = KEYS if names is None else chosen(names)
    found: tuple[Rule, ...] = ()
    if rules is not None:
        from commands.ingesting.rules import read_rules  # noqa: PLC0415 - as above

        found = read_rules(rules)
    own = names is not None or rules is not None
    return Redaction(values, detectors, found, origin=(origin or "no ledger yet") if own else "")
