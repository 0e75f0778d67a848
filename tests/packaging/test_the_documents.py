"""What the documents name is there."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
PAGES = sorted([HERE / "README.md", *(HERE / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
HOP = re.compile(r"\]\((\.\./[^)]+\.py)\)((?:,?\s+`\w+`)+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert missing == []


def test_every_hop_of_the_tour_finds_what_it_names() -> None:
    page = HERE / "docs" / "tour.md"
    hops = HOP.findall(page.read_text("utf-8"))
    assert len(hops) >= 14
    missing = []
    for target, names in hops:
        source = (page.parent / target).read_text("utf-8")
        missing += [
            f"{target}: {name}"
            for name in re.findall(r"`(\w+)`", names)
            if not re.search(rf"^(?:async )?(?:def|class) {name}\b", source, re.MULTILINE)
        ]
    assert missing == []


def test_no_page_has_a_line_that_a_terminal_breaks() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        long = [line for line in prose.splitlines() if len(line) > 130 and not line.startswith("|")]
        assert long == [], page.name
