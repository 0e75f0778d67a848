"""Commands that a task's words suggest: they touch what the task names, and they are well formed."""

from __future__ import annotations

import shlex

import pytest

from commands.embedded import shell
from commands.embedded.names import names_in


@pytest.mark.parametrize(
    ("task", "topic", "expected"),
    [
        ("Run `ls -la /srv` and `wc -l /srv/a.txt`", "files", ["ls -la /srv", "wc -l /srv/a.txt"]),
        ("Get the tags of 'nodejs/node'", "web", ["curl -s https://api.github.com/repos/nodejs/node"]),
        ("Get the followers of 'antirez'", "web", ["curl -s https://api.github.com/users/antirez"]),
        ("Find the newest 'lodash' on npm", "registry", ["curl -s https://registry.npmjs.org/lodash/latest"]),
        ("Find the newest 'flask' on PyPI", "registry", ["curl -s https://pypi.org/pypi/flask/json"]),
        (
            "Fetch https://example.org/x into /srv/x.json",
            "web",
            ["curl -s https://example.org/x | jq -r . > /srv/x.json"],
        ),
        ("Write a script /srv/run.py that writes /srv/out.json", "code", ["cat > /srv/run.py", "python3 /srv/run.py"]),
        ("Sort /srv/in.txt into /srv/out.txt", "text", ["printf", "cat /srv/in.txt | sort > /srv/out.txt"]),
        ("Reverse the lines of /srv/in.txt", "text", ["printf 'delta"]),
        ("Put /srv/a.tar.gz together as an archive", "files", ["mkdir -p work && tar czf /srv/a.tar.gz"]),
        ("Find all files called '*.md' below /srv/docs", "files", ["find /srv/docs -name '*.md'"]),
        (
            "Make a folder /srv/new with /srv/new/a.txt holding 'hi'",
            "files",
            ["mkdir -p /srv/new && printf '%s\\n' hi"],
        ),
        ("Tidy up", "files", ["ls -la ."]),
    ],
)
def test_a_task_becomes_commands_that_begin_as_expected(task: str, topic: str, expected: list[str]) -> None:
    steps = shell.steps(task, topic)
    assert len(steps) == len(expected)
    for step, beginning in zip(steps, expected, strict=True):
        assert step.startswith(beginning)
        shlex.split(step)


def test_what_a_task_names_is_touched() -> None:
    task = "Create files /srv/a.txt and /srv/b.txt, then write the differing lines to /srv/c.diff"
    written = " ".join(shell.steps(task, "text"))
    assert names_in(task) == ["/srv/a.txt", "/srv/b.txt", "/srv/c.diff"]
    assert all(name in written for name in names_in(task))


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("Save 'x y' and \"z\" from https://e.org/a.b to /srv/q", ["x y", "z", "https://e.org/a.b", "/srv/q"]),
        ("A user's files belong to the team's members", ["files", "belong", "members"]),
        ("Count words", ["count", "words"]),
        ("", []),
    ],
)
def test_names_are_addresses_paths_and_quoted_text_or_else_longer_words(task: str, names: list[str]) -> None:
    assert names_in(task) == names
