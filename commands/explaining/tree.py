"""The lineage as a tree of bounded size: subtrees that were shown are named, and long rows are cut and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from commands.explaining.telling import named_contents, short
from commands.render.plain import one_line
from ledger import digests
from ledger.families.traces import TraceImported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands.explaining.lineage import Lineage, Node


PLACES = 4


class Branch(msgspec.Struct):
    """A node as it is shown. ``more`` counts what it rests on too and isn't shown; ``repeated`` was shown before.

    ``places`` are those of a trace in the files it was read from, None when they weren't looked up.
    """

    node: Node
    rests_on: list[Branch]
    more: int = 0
    repeated: bool = False
    places: tuple[str, ...] | None = None


class Tree:
    """Grows a lineage once from its root."""

    def __init__(self, lineage: Lineage, *, depth: int, width: int | None) -> None:
        self._lineage = lineage
        self._depth = depth
        self._width = width
        self._grown: set[tuple[str, str]] = set()

    def grow(self, node: Node, depth: int = 0) -> Branch:
        """Return the branch of a node and all that it rests on, as deep and as wide as was asked for."""
        branch = Branch(node, [])
        if node.place in self._grown:
            branch.repeated = bool(self._lineage.parents(node))
            return branch
        parents = list({one.place: one for one in self._lineage.parents(node)}.values())
        if depth >= self._depth:
            branch.more = len(parents)
            return branch
        self._grown.add(node.place)
        shown = parents if self._width is None else parents[: self._width]
        branch.more = len(parents) - len(shown)
        branch.rests_on = [self.grow(parent, depth + 1) for parent in shown]
        return branch


def traces_in(branch: Branch) -> Iterator[tuple[str, Branch]]:
    """Yield every trace that is shown, by its digest."""
    record = branch.node.record
    if record is not None and record.kind == TraceImported.kind:
        yield record.key or "", branch
    for one in branch.rests_on:
        yield from traces_in(one)


def plain(branch: Branch) -> dict[str, Any]:
    """Return a branch as JSON has it."""
    node, record = branch.node, branch.node.record
    return {
        "what": node.what if node.what != "event" or record is None else record.kind,
        "name": node.name,
        "seq": record.seq if record else None,
        "event": digests.named(record.id) if record else None,
        "contents": named_contents(record) if record else [],
        "problem": node.problem,
        "places": branch.places,
        "repeated": branch.repeated,
        "more": branch.more,
        "rests_on": [plain(one) for one in branch.rests_on],
    }


def lines(branch: Branch, before: str = "", mark: str = "") -> Iterator[str]:
    """Yield a branch as lines, each node under what rests on it."""
    yield f"{before}{mark}{_said(branch)}"
    deeper = before + {"": "", "|- ": "|  ", "`- ": "   "}[mark]
    for place, one in enumerate(branch.rests_on):
        last = place == len(branch.rests_on) - 1 and not branch.more
        yield from lines(one, deeper, "`- " if last else "|- ")
    if branch.more:
        yield f"{deeper}`- ... {branch.more} more"


def _said(branch: Branch) -> str:
    node, record = branch.node, branch.node.record
    what = node.what if node.what != "event" or record is None else record.kind.partition("@")[0]
    name = short(node.name) if node.name.startswith(digests.PREFIX) else one_line(node.name)
    said = [what, name]
    if record is not None:
        said.append(f"(event {record.seq}, {short(digests.named(record.id))})")
        said += [f"content {short(digest)}" for digest in named_contents(record)]
    if node.problem is not None:
        said.append(one_line(node.problem))
    if branch.places is not None:
        said.append(_places(branch.places))
    if branch.repeated:
        said.append("[shown above]")
    return " ".join(said)


def _places(places: tuple[str, ...]) -> str:
    if not places:
        return "is not in the files as they are now"
    more = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
    return "from " + one_line("; ".join(places[:PLACES])) + more
