"""Rules: shapes of somebody's own that imports leave out, read from a file, and matched in time linear in the text.

```toml
[[rule]]
name = "customer"
regex = "CUST-[0-9]{6}"
```

The expressions are RE2's: those that other engines match in exponential time take linear time there, and what can't be
done so (backreferences, looking around) is no expression at all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from commands.regular_file import read_small
from ledger.detectors import BY_NAME, CREDENTIAL
from ledger.errors import Refusal

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 64 * 1024
MOST_RULES = 100
MOST_LETTERS = 1_000
MOST_MEMORY = 8 << 20  # of one compiled expression
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


class RedactionRulesUnusable(Refusal, name="redaction-rules-unusable", exit_code=96):
    """A file of redaction rules can't be used; the first problem is named."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the redaction rules can't be used: {problem}; nothing was read",
            where=str(path),
            remedy='write TOML: [[rule]] with name = "customer" and regex = "CUST-[0-9]{6}" (RE2\'s syntax)',
        )


class Written(msgspec.Struct, forbid_unknown_fields=True):
    """A rule as it is in the file."""

    name: str
    regex: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rule: list[Written]


class Compiled:
    """A rule that finds."""

    def __init__(self, name: str, regex: str) -> None:
        import re2  # noqa: PLC0415 - loaded when there are rules

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MOST_MEMORY
        self.name = name
        self.regex = regex
        self._find = re2.compile(regex, options).finditer

    def __call__(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the rule's shape is, in order and without overlap."""
        for match in self._find(text):
            yield match.span()


def read_rules(path: Path) -> tuple[Compiled, ...]:
    """Return the rules of a file; RedactionRulesUnusable when any of them can't be used."""
    try:
        data = read_small(path, MOST_BYTES)
    except OSError as error:
        raise RedactionRulesUnusable(path, error.strerror or str(error)) from error
    if data is None:
        raise RedactionRulesUnusable(path, f"they must be in a regular file of at most {MOST_BYTES} bytes")
    try:
        written = msgspec.convert(tomllib.loads(data.decode()), _File).rule
    except (ValueError, RecursionError) as error:  # what isn't UTF-8, TOML or rules
        raise RedactionRulesUnusable(path, str(error).partition("\n")[0]) from error
    if not 0 < len(written) <= MOST_RULES:
        raise RedactionRulesUnusable(path, f"there must be 1 to {MOST_RULES} rules, and there are {len(written)}")
    return tuple(_compiled(path, rule, {other.name for other in written[:place]}) for place, rule in enumerate(written))


def _compiled(path: Path, rule: Written, taken: set[str]) -> Compiled:
    import re2  # noqa: PLC0415 - as above

    if not _NAME.fullmatch(rule.name) or rule.name in {*BY_NAME, CREDENTIAL, *taken}:
        raise RedactionRulesUnusable(path, f"the name {rule.name!r} is taken or isn't small letters, digits and -")
    if len(rule.regex) > MOST_LETTERS:
        raise RedactionRulesUnusable(path, f"rule {rule.name} is longer than {MOST_LETTERS} characters")
    try:
        made = Compiled(rule.name, rule.regex)
        empty = next(made(""), None) is not None
    except (re2.error, ValueError) as error:
        words = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise RedactionRulesUnusable(path, f"rule {rule.name} is no expression of RE2: {words}") from error
    if "\\C" in rule.regex:
        raise RedactionRulesUnusable(path, f"rule {rule.name} matches parts of characters (\\C)")
    if empty:
        raise RedactionRulesUnusable(path, f"rule {rule.name} matches the empty text")
    return made
