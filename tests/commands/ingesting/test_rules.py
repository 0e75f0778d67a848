"""Redaction rules of somebody's own: what a file may hold, and that no expression keeps the program busy."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from commands.ingesting.rules import RedactionRulesUnusable, read_rules
from ledger.detectors import Redaction
from ledger.redaction import Redactor


def ruled(path: Path, regex: str, name: str = "customer") -> Path:
    path.write_text(f"[[rule]]\nname = '{name}'\nregex = '{regex}'\n")
    return path


def test_rules_find_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "customer"\nregex = "CUST-[0-9]{6}"\n[[rule]]\nname = "e"\nregex = "é+"\n')
    first, second = read_rules(path)
    assert list(first("é CUST-123456, CUST-654321")) == [(2, 13), (15, 26)]
    assert list(second("aéé é")) == [(1, 3), (4, 5)]
    redaction = Redaction(Redactor(), (), (first, second), origin="x")
    shown, count = redaction("é CUST-123456 CUST-123456")
    assert count == 3
    assert shown.startswith("[e:")
    assert shown.split()[1] == shown.split()[2]
    assert redaction.names == ("customer", "e")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[[rule]]\nname = 'a'\nregex = '('", "no expression of RE2"),
        (b"[[rule]]\nname = 'a'\nregex = '(a)\\1'", "no expression of RE2"),
        (b"[[rule]]\nname = 'a'\nregex = '(?=a)'", "no expression of RE2"),
        (b"[[rule]]\nname = 'a'\nregex = '((a{100}){100}){100}'", "no expression of RE2"),
        (b"[[rule]]\nname = 'a'\nregex = 'a*'", "empty text"),
        (b"[[rule]]\nname = 'a'\nregex = ''", "empty text"),
        (b"[[rule]]\nname = 'a'\nregex = '\\C'", "parts of characters"),
        (b"[[rule]]\nname = 'email'\nregex = 'a'", "is taken"),
        (b"[[rule]]\nname = 'credential'\nregex = 'a'", "is taken"),
        (b"[[rule]]\nname = 'A b'\nregex = 'a'", "small letters"),
        (b"[[rule]]\nname = 'a'\nregex = 'a'\n[[rule]]\nname = 'a'\nregex = 'b'", "is taken"),
        (b"[[rule]]\nname = 'a'\nregex = '" + b"a" * 1001 + b"'", "longer than"),
        (b"[[rule]]\nname = 'a'\nregex = 7", "str"),
        (b"[[rule]]\nname = 'a'", "regex"),
        (b"[[rule]]\nname = 'a'\nregex = 'a'\nmore = 1", "more"),
        (b"rule = []", "1 to 100"),
        (b"".join(b"[[rule]]\nname = 'a%d'\nregex = 'a'\n" % number for number in range(101)), "1 to 100"),
        (b"", "rule"),
        (b"[[", "at"),
        (b"\xff", "utf-8"),
        (b"#" * 70_000, "at most"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_with_the_problem(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(content)
    with pytest.raises(RedactionRulesUnusable, match="can't be used") as refused:
        read_rules(path)
    assert problem in refused.value.what


def test_rules_are_read_from_regular_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent", Path("a\0b")):
        with pytest.raises(RedactionRulesUnusable):
            read_rules(path)


def test_an_expression_that_is_exponential_elsewhere_takes_linear_time(tmp_path: Path) -> None:
    (rule,) = read_rules(ruled(tmp_path / "rules.toml", "(a+)+$"))
    start = time.process_time()
    assert list(rule("a" * 500_000 + "b")) == []
    assert time.process_time() - start < 2
