"""The page as a browser shows it: at two widths, in light and dark, without a request or a complaint.

Skipped where there is no Chromium: install one (on Debian: apt install chromium), or name it in CHROMIUM.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from commands.main import run
from commands.render.report_page import report_page
from commands.reporting.meant import meant
from commands.reporting.reading import read
from tests.commands.reading import Journey
from tests.commands.render.browser import chromium, opened

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="there is no Chromium here: NOTHING WAS SEEN of the report's page in a browser"
)

# The least contrast of any text with what is painted behind it, where nothing is folded away.
CONTRAST = """(() => {
const rgb = text => (text.match(/[0-9.]+/g) || []).map(Number);
const part = value => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
const behind = element => { for (let at = element; at; at = at.parentElement) {
  const found = rgb(getComputedStyle(at).backgroundColor); if (found.length === 3 || found[3] > 0) return found; }
  return [255, 255, 255]; };
let least = 99;
for (const element of document.querySelectorAll('main *, header *, nav *, footer *')) {
  if (element.closest('svg') || !element.checkVisibility()) continue;
  if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
  const [one, other] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
  least = Math.min(least, (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05));
}
return least; })()"""


@pytest.fixture(scope="module")
def written(journey: Journey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert run(["report", journey.ids["report"], "--root", str(journey.root), "--html", str(path)]) == 0
    return path


async def _looked_at(path: Path, folder: Path, width: int, *, dark: bool) -> dict[str, Any]:
    async with opened(folder) as page:
        await page.show(path, width, dark=dark)
        seen = {
            "wide": await page.value("document.documentElement.scrollWidth"),
            "dark": await page.value("matchMedia('(prefers-color-scheme: dark)').matches"),
            "styled": await page.value("getComputedStyle(document.querySelector('.unseen')).position"),
            "contrast": await page.value(CONTRAST),
            "smallest": await page.value(
                "Math.min(...[...document.querySelectorAll('.heat a')].filter(a => a.checkVisibility())"
                ".map(a => Math.min(a.getBoundingClientRect().width, a.getBoundingClientRect().height)))"
            ),
            "folded": await page.value("document.querySelector('.cell').checkVisibility()"),
        }
        await page.value("document.querySelector('.heat a').click()")
        target = "document.getElementById(document.querySelector('.heat a').hash.slice(1))"
        seen["opened"] = await page.value(f"{target}.checkVisibility() && {target}.matches(':target')")
        top = await page.value(f"{target}.getBoundingClientRect().top")
        seen["scrolled"] = 0 <= top < 900
        seen["picture"] = (await page.picture())[:8]
        seen["requested"], seen["said"] = page.requested, page.said
        return seen


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_opens_what_is_clicked_and_asks_for_nothing(
    written: Path, tmp_path: Path, width: int, *, dark: bool
) -> None:
    seen = asyncio.run(_looked_at(written, tmp_path / "profile", width, dark=dark))
    assert seen["wide"] <= width
    assert seen["dark"] is dark
    assert seen["styled"] == "absolute"  # the policy lets the style in
    assert seen["contrast"] >= 4.5
    assert seen["smallest"] >= 44  # what a finger can hit
    assert seen["folded"] is False
    assert seen["opened"] is True
    assert seen["scrolled"]
    assert seen["picture"] == b"\x89PNG\r\n\x1a\n"
    assert seen["requested"] == [written.as_uri()]
    assert seen["said"] == []


async def _widths(path: Path, folder: Path) -> tuple[int, int]:
    async with opened(folder) as page:
        await page.show(path, 390)
        whole = await page.value("document.documentElement.scrollWidth")
        return whole, await page.value("document.querySelector('.heat').scrollWidth")


def test_many_candidates_scroll_within_their_table(journey: Journey, tmp_path: Path) -> None:
    with meant(journey.root, journey.ids["report"]) as found:
        sheet = read(found)
    many = tuple(f"candidate-with-a-long-name-{number}" for number in range(12))
    path = tmp_path / "wide.html"
    path.write_text(report_page(msgspec.structs.replace(sheet, candidates=(*sheet.candidates, *many))), "utf-8")
    whole, inner = asyncio.run(_widths(path, tmp_path / "profile"))
    assert whole <= 390 < inner
