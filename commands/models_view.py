"""The models view: ``models.toml`` in the root, rendered from the journal for people to read.

No command reads its contents back. It carries the journal position that it was rendered at and a digest of all the
rest, so a view that is merely old can be told from one that somebody edited.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from commands.render.json_text import json_text
from ledger import digests
from ledger.errors import Refusal
from ledger.families import providers
from ledger.families.providers import ROLES, Providers
from ledger.money import NANO

if TYPE_CHECKING:
    from pathlib import Path

    from ledger.journal import Journal

NAME = "models.toml"
EDITED = "models.toml.edited"
PRIVATE = 0o600
Condition = Literal["fresh", "stale", "edited", "absent"]

_HEAD = """\
# Rendered from the journal by `exp config providers`; edits have no effect.
# Change the configuration with `exp config providers ... --replace`.
"""
_DIGEST = re.compile(rb'digest = "(b3:[0-9a-f]{64})"\n')


class ViewUnusable(Refusal, name="view-unusable", exit_code=29):
    """The models view can't be read or rendered; what it would show is recorded all the same."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the models view can't be rendered: {reason}; what was configured is recorded",
            where=str(path),
            remedy=f"move it and {NAME}.new and {EDITED} beside it away, then run `exp config providers`",
        )


def keep(journal: Journal) -> Condition:
    """Render the view again unless it is fresh, and return the condition that it was found in.

    An edited view is kept beside the new one, since somebody's work is in it. ViewUnusable when that can't be done.
    """
    try:
        return _kept(journal)
    except OSError as error:
        raise ViewUnusable(journal.path.parent / NAME, error.strerror or str(error)) from error


def _kept(journal: Journal) -> Condition:
    root = journal.path.parent
    path = root / NAME
    wanted = render(journal)
    condition = inspect(path, wanted)
    if condition == "edited":
        path.replace(root / EDITED)
    if condition != "fresh":
        fresh = root / f"{NAME}.new"
        fresh.touch(mode=PRIVATE)
        _require_file(fresh)
        fresh.write_bytes(wanted)
        fresh.replace(path)
    return condition


def inspect(path: Path, wanted: bytes) -> Condition:
    """Return the condition of the view that is there."""
    try:
        _require_file(path)
        found = path.read_bytes()
    except FileNotFoundError:
        return "absent"
    if found == wanted:
        return "fresh"
    signed = _DIGEST.search(found)
    if signed is None:
        return "edited"
    rest = found[: signed.start()] + found[signed.end() :]
    return "stale" if digests.content_digest(rest).encode() == signed[1] else "edited"


def _require_file(path: Path) -> None:
    """Raise for what is no regular file: reading or writing a pipe would wait for its other end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ViewUnusable(path, "it is no regular file")


def render(journal: Journal) -> bytes:
    """Return the view's bytes: a function of the provider events alone."""
    position = max((record.seq for record in journal.events(*providers.FAMILY.kinds)), default=0)
    state: Providers = journal.state(providers.FAMILY)
    before = f"{_HEAD}\n[journal]\nposition = {position}\n".encode()
    after = "".join(line + "\n" for line in _lines(state)).encode()
    return before + f'digest = "{digests.content_digest(before + after)}"\n'.encode() + after


def _lines(state: Providers) -> Iterator[str]:
    yield ""
    yield "[roles]"
    for role in ROLES:
        if role in state.roles:
            yield f"{role} = {_text(state.roles[role])}"
    for name in sorted(state.connections):
        yield from _table("connections", name, msgspec.to_builtins(state.connections[name]), "name")
    for alias in sorted(state.models):
        fields = msgspec.to_builtins(state.models[alias])
        yield from _table("models", alias, {**fields, **fields.pop("capabilities")}, "alias")


def _table(kind: str, name: str, fields: dict[str, object], leave_out: str) -> Iterator[str]:
    yield ""
    yield f"[{kind}.{_text(name)}]"
    for field, value in fields.items():
        if value is None or field in {leave_out, "capabilities"}:
            continue
        if field.endswith("_price") and isinstance(value, int):
            yield f"{field.removesuffix('_price')}_usd_per_million_tokens = {_text(dollars(value))}"
        else:
            yield f"{field} = {_text(value) if isinstance(value, str) else json.dumps(value)}"


def dollars(nano: int) -> str:
    """Return an amount exactly, without zeros at its end."""
    whole, rest = divmod(nano, NANO)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    return json_text(text)
