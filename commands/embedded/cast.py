"""The cast: which models the stand-in plays, what each is good at, and what it would cost.

Skill is a chance in thousandths of attempting a task properly, one for each topic that can be read off a task's text.
The three embedded candidates have theirs from a table: the small one equals the large one on two topics and is bad at
the rest, so that a router has something to learn. Any other name has skills that follow from its digest.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
from blake3 import blake3

FINGERPRINT = "exp-stand-in-v1"

WORLD_MODEL = "embedded-world-model"
JUDGE = "embedded-judge"
EMBEDDER = "embedded-embedder"
SMALL, MEDIUM, LARGE = "embedded-small", "embedded-medium", "embedded-large"
MODELS = (EMBEDDER, JUDGE, LARGE, MEDIUM, SMALL, WORLD_MODEL)

TOPICS = ("registry", "web", "code", "text", "files")
_WORDS = {
    "npm": 0, "pypi": 0, "package": 0, "packages": 0, "registry": 0, "dependencies": 0, "crates": 0, "pip": 0,
    "curl": 1, "http": 1, "https": 1, "api": 1, "github": 1, "url": 1, "download": 1, "fetch": 1, "wget": 1,
    "endpoint": 1, "repository": 1,
    "python": 2, "python3": 2, "script": 2, "function": 2, "class": 2, "program": 2, "implements": 2, "compile": 2,
    "json": 2, "git": 2, "node": 2, "loop": 2, "calculate": 2, "compute": 2,
    "lines": 3, "line": 3, "csv": 3, "sort": 3, "grep": 3, "awk": 3, "sed": 3, "words": 3, "word": 3, "column": 3,
    "text": 3, "extract": 3, "count": 3, "duplicate": 3, "uppercase": 3, "replace": 3, "txt": 3,
    "directory": 4, "folder": 4, "directories": 4, "archive": 4, "tar": 4, "permissions": 4, "chmod": 4, "symlink": 4,
    "link": 4, "size": 4, "rename": 4, "copy": 4, "move": 4, "mkdir": 4, "file": 4, "files": 4, "find": 4, "ls": 4,
}  # fmt: skip
_WORD = re.compile(r"[a-z][a-z0-9]+")
_FIRST_WORDS = 4_000

_SKILLS = {
    SMALL: (60, 60, 120, 940, 940),
    MEDIUM: (940, 520, 300, 700, 520),
    LARGE: (940, 940, 940, 940, 940),
}
_STRONG, _WEAK = 960, 60  # thousandths, before a name's own variation
_LEAST_STRONG, _STRONG_SPREAD = 70, 140  # of 256: between a quarter and four fifths of the topics are strong ones


class Price(msgspec.Struct, frozen=True):
    """Dollars a million tokens, as text, so that no float is needed to configure one."""

    input: str
    output: str


PRICES = {
    SMALL: Price("0.10", "0.40"),
    MEDIUM: Price("0.40", "1.60"),
    LARGE: Price("1.00", "4.00"),
    WORLD_MODEL: Price("0", "0"),
    JUDGE: Price("0", "0"),
    EMBEDDER: Price("0", "0"),
}


def topic(task: str) -> int:
    """Return the index in TOPICS of what a task is about: the most words win, the earlier topic when equal."""
    counts = [0] * len(TOPICS)
    for word in _WORD.findall(task[:_FIRST_WORDS].lower()):
        at = _WORDS.get(word)
        if at is not None:
            counts[at] += 1
    return max(range(len(TOPICS)), key=lambda at: (counts[at], -at)) if any(counts) else len(TOPICS) - 1


@lru_cache(maxsize=512)
def skills(model: str) -> tuple[int, ...]:
    """Return a model's chances in thousandths, one a topic; fixed for ever by its name."""
    known = _SKILLS.get(model)
    if known is not None:
        return known
    digest = blake3(b"the skill of " + model.encode("utf-8", "surrogatepass")).digest()
    strong_below = _LEAST_STRONG + digest[0] * _STRONG_SPREAD // 256
    return tuple(
        _STRONG - strength // 4 if strength < strong_below else _WEAK + strength
        for strength in digest[1 : 1 + len(TOPICS)]
    )


def able(model: str, task: str, seed: int = 0) -> bool:
    """Tell whether a model attempts a task properly.

    The draw is the task's, not the model's: of two models the one with more skill in a topic does all the other does.
    """
    drawn = blake3(b"draw %d of " % seed + task.encode("utf-8", "surrogatepass")).digest(4)
    return int.from_bytes(drawn, "big") * 1000 // 2**32 < skills(model)[topic(task)]
