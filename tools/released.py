"""Released schemas: a copy of every shape at each release, which never changes, and what today's must still accept.

A shape accepts an older one when every value of the older is a value of it that means the same: fields may be added
with a default, alternatives may be added, limits may be widened. Anything else is a new version of the kind.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3

LISTING = "released.txt"
LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
SAME = ("pattern", "format", "additionalProperties", "uniqueItems", "multipleOf")

Schema = dict[str, Any]


def release(schemas: Path, version: str) -> str | None:
    """Copy today's schemas to the folder of a release; return what stands in the way."""
    folder = schemas / "released" / version
    if folder.exists():
        return f"{version} is released already: what is released never changes"
    fresh = folder.with_name(f".{version}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for path in sorted(schemas.glob("*.json")):
        shutil.copyfile(path, fresh / path.name)
    (fresh / LISTING).write_text(_listing(fresh), "utf-8")
    fresh.rename(folder)
    return None


def problems(schemas: Path) -> Iterator[str]:
    """Return what is wrong with the released schemas, and where today's no longer accept them."""
    folders = sorted(path for path in (schemas / "released").glob("*") if path.is_dir())
    for folder in folders:
        listing = folder / LISTING
        if not listing.is_file() or listing.read_text("utf-8") != _listing(folder):
            yield f"schema/released/{folder.name} isn't what {LISTING} there lists: what is released never changes"
        for path in sorted(folder.glob("*.json")):
            yield from _accepted(schemas / path.name, path, folder.name)
    yield from _touched(schemas)


def _listing(folder: Path) -> str:
    paths = sorted(folder.glob("*.json"))
    return "".join(f"{blake3(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)


def _touched(schemas: Path) -> Iterator[str]:
    """Return released files that differ from what is committed, where this is a clone of the repository."""
    words = ["git", "diff", "--name-only", "--diff-filter=MDRT", "HEAD", "--", "released"]
    try:
        done = subprocess.run(words, cwd=schemas, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return
    if done.returncode == 0:
        yield from (f"{name} was changed: what is released never changes" for name in done.stdout.splitlines())


def _accepted(now: Path, then: Path, version: str) -> Iterator[str]:
    if not now.is_file():
        yield f"{then.name} was released in {version} and is gone: keep its shape and read it as a newer version"
        return
    new, old = json.loads(now.read_text("utf-8")), json.loads(then.read_text("utf-8"))
    for pointer, what in Comparison(new, old).differences():
        yield f"{then.name} no longer accepts what {version} recorded: {pointer or '/'} {what}"


class Comparison:
    """Today's schema of a kind beside a released one."""

    def __init__(self, new: Schema, old: Schema) -> None:
        self.new = new
        self.old = old
        self.compared: set[tuple[str, str]] = set()

    def differences(self) -> list[tuple[str, str]]:
        """Return where the new one doesn't accept the old, by pointers into the value; none when it does."""
        return list(self.between(self.new, self.old, ""))

    def between(self, new: Schema, old: Schema, at: str) -> Iterator[tuple[str, str]]:
        """Return where one part of the new schema doesn't accept a part of the old."""
        if "$ref" in new and "$ref" in old:
            pair = (new["$ref"], old["$ref"])
            if pair in self.compared:
                return
            self.compared.add(pair)
        new, old = _resolved(new, self.new), _resolved(old, self.old)
        if "anyOf" in old or "anyOf" in new:
            yield from self._alternatives(new.get("anyOf", [new]), old.get("anyOf", [old]), at)
            return
        if "enum" in new:
            if not ("enum" in old and set(map(json.dumps, old["enum"])) <= set(map(json.dumps, new["enum"]))):
                yield at, "takes fewer values"
            return
        if "type" in new and new["type"] != old.get("type") and (new["type"], old.get("type")) != ("number", "integer"):
            yield at, f"is {new['type']} and was {old.get('type', 'anything')}"
            return
        yield from _limits(new, old, at)
        yield from self._members(new, old, at)
        yield from self._items(new, old, at)

    def _alternatives(self, new: list[Schema], old: list[Schema], at: str) -> Iterator[tuple[str, str]]:
        for each in old:
            if not any(self._accepts(one, each) for one in new):
                yield at, "lacks one of its alternatives"

    def _accepts(self, new: Schema, old: Schema) -> bool:
        apart = Comparison(self.new, self.old)
        apart.compared |= self.compared  # what is being compared already needn't be asked again inside itself
        return next(apart.between(new, old, ""), None) is None

    def _members(self, new: Schema, old: Schema, at: str) -> Iterator[tuple[str, str]]:
        known, before = new.get("properties", {}), old.get("properties", {})
        for name, schema in before.items():
            if name not in known:
                yield f"{at}/{name}", "is gone"
                continue
            if known[name].get("default", ...) != schema.get("default", ...) and "default" in schema:
                yield f"{at}/{name}", "has another default"
            yield from self.between(known[name], schema, f"{at}/{name}")
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            yield f"{at}/{name}", "must be there and needn't have been"

    def _items(self, new: Schema, old: Schema, at: str) -> Iterator[tuple[str, str]]:
        if len(new.get("prefixItems", ())) != len(old.get("prefixItems", ())):
            yield at, "has another number of items"
        pairs = zip(new.get("prefixItems", ()), old.get("prefixItems", ()), strict=False)
        for index, (one, before) in enumerate(pairs):
            yield from self.between(one, before, f"{at}/{index}")
        if isinstance(new.get("items"), dict):
            yield from self.between(new["items"], old.get("items") or {}, f"{at}/*")


def _resolved(schema: Schema, whole: Schema) -> Schema:
    while "$ref" in schema:
        found: Schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
        schema = found
    return schema


def _limits(new: Schema, old: Schema, at: str) -> Iterator[tuple[str, str]]:
    for name in LEAST:
        if name in new and not (name in old and old[name] >= new[name]):
            yield at, f"has a narrower {name}"
    for name in MOST:
        if name in new and not (name in old and old[name] <= new[name]):
            yield at, f"has a narrower {name}"
    for name in SAME:
        if isinstance(new.get(name), dict) and isinstance(old.get(name), dict):
            continue
        if name in new and new[name] != old.get(name):
            yield at, f"has another {name}"
