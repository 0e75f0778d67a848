"""What a task names: addresses, paths, files and quoted text, found by their form."""

from __future__ import annotations

import re

URL = re.compile(r"https?://[^\s'\"<>)\]]*[\w/]")
PATH = re.compile(r"(?<![\w:/])/[\w.@%+~\-/]*\w/?")
QUOTED = re.compile(r"(?<!\w)'([^'\n]{1,80})'(?!\w)|\"([^\"\n]{1,80})\"|`([^`\n]{1,120})`")
FILE = re.compile(r"(?<![\w/.@])[\w\-]+\.(?:txt|json|csv|log|md|py|sh|xml|html|yaml|yml|tar\.gz|tar|gz|c)\b")
_NAME = re.compile(f"{URL.pattern}|/[\\w.@%+~\\-/]*\\w|{QUOTED.pattern}|{FILE.pattern}")
_WORD = re.compile(r"[A-Za-z][\w\-]{4,}")
_MOST = 40


def quoted_in(text: str) -> list[str]:
    """Return the texts in quotes, without them."""
    return ["".join(groups) for groups in QUOTED.findall(text)]


def names_in(task: str) -> list[str]:
    """Return what a task names, each once; its longer words when it names nothing."""
    found = dict.fromkeys("".join(match.groups(default="")) or match.group() for match in _NAME.finditer(task))
    names = [name for name in found if name.strip()]
    return (names or list(dict.fromkeys(word.lower() for word in _WORD.findall(task))))[:_MOST]
