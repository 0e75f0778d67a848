"""docs/gateway.md says of each promise which test holds it: each of these must be there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "gateway.md").read_text("utf-8")


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert len(named) > 40
    assert named - there == set()


def test_the_page_names_the_flags_and_every_reason() -> None:
    from commands.gateway import routing  # noqa: PLC0415 - beside what is asked of it

    reasons = (routing.NAMED, routing.FAILED, routing.UNABLE, routing.UNHEALTHY, routing.NOT_ALLOWED, routing.KEPT)
    for words in (*reasons, routing.FAILOVER, "--retries", "--upstream-timeout", "--fallback", "--host"):
        assert words in PAGE
