"""Findings: all that a check found, each with its place and what to do; silence when there is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from commands.render.json_text import json_text
from commands.render.plain import one_line

if TYPE_CHECKING:
    from ledger.verify import Finding


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings, or one JSON object. A finding's line is its name, its event and its meaning; two more follow."""
    if as_json:
        rows = [finding._asdict() for finding in findings]
        click.echo(json_text({"well": not findings, "findings": rows}, indent=2))
        return
    for finding in findings:
        click.echo(f"{finding.name} {finding.seq} {one_line(finding.meaning)}")
        click.echo(f"  in {one_line(finding.place)}\n  {one_line(finding.remedy)}")
