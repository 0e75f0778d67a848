"""Starting is cheap, and the table of commands says what the commands say."""

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from commands.main import TREE, Branch, Leaf, cli
from tools.reference import walk

HEAVY = {"aiohttp", "apsw", "asyncio", "msgspec", "numpy", "pydantic", "uvicorn", "uvloop"}
LOOK = """
import json, sys
from commands import main
main.run(sys.argv[1:])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def modules_after(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def leaves(branch: Branch, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for name, entry in branch.entries.items():
        if isinstance(entry, Branch):
            yield from leaves(entry, (*path, name))
        else:
            yield (*path, name), entry


def test_help_imports_no_command_and_nothing_heavy() -> None:
    loaded = modules_after("--help")
    assert not HEAVY & loaded
    assert not {name for name in loaded if name.startswith(("commands.cli", "projections", "ledger.families"))}
    bare = subprocess.run(
        [sys.executable, "-c", "import sys, click; print(len(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert len(loaded) < int(bare.stdout) + 25


@pytest.mark.parametrize("path", [path for path, _ in leaves(TREE)], ids=" ".join)
def test_the_help_of_a_command_loads_no_engine(path: tuple[str, ...]) -> None:
    assert not (HEAVY - {"msgspec", "asyncio"}) & modules_after(*path, "--help")


@pytest.mark.parametrize(
    ("path", "leaf"), [(path, leaf) for path, leaf in leaves(TREE)], ids=lambda part: str(part)[:40]
)
def test_the_table_says_what_the_command_says(path: tuple[str, ...], leaf: Leaf) -> None:
    named = dict(walk(cli, "exp"))
    command = named[" ".join(("exp", *path))]
    assert command.get_short_help_str(limit=200).startswith(leaf.summary.rstrip("."))


def test_every_command_has_the_options_of_the_house() -> None:
    for words, command in walk(cli, "exp"):
        if isinstance(command, click.Group):
            continue
        flags = {flag for param in command.params for flag in param.opts}
        if words != "exp provider serve":  # it has no root and no result: it serves until it is stopped
            assert {"--root", "--json"} <= flags, words


def test_every_option_says_what_it_is() -> None:
    for words, command in walk(cli, "exp"):
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.help, f"{words} {param.opts}"
