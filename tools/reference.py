"""What the generated pages say: the command line, the errors, and the shapes of what is recorded."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from commands.main import Branch, cli
from ledger.errors import REFUSALS, Refusal
from ledger.event import KINDS, OLDER
from ledger.recorded import Envelope
from projections.calibration import Calibration
from projections.policy import Policy
from projections.report import Report

HERE = Path(__file__).resolve().parent.parent
PACKAGES = ("ledger", "projections", "commands")
WIDTH = 100

# An input that provokes an error, where that needs nothing but an empty folder. Each is a list of command lines; the
# last one fails. docs/errors.md shows what it prints, and a test runs them all.
_MODELS = {"w": "world-model", "j": "judge", "e": "embedder", "small": "small", "large": "large"}
_CONFIGURED = " ".join(
    [
        """exp config providers --connection-json '{"name":"here","provider":"embedded"}'""",
        *(
            f"""--model-json '{{"alias":"{alias}","connection":"here","model":"embedded-{name}"}}'"""
            for alias, name in _MODELS.items()
        ),
        "--world-model w --judge j --embedder e",
    ]
)
_OPTIMIZE = "exp optimize router demo --candidate small --candidate large --incumbent large --yes"
PROVOCATIONS: dict[str, list[str]] = {
    "build-wanted": [_CONFIGURED, _OPTIMIZE],
    "ceiling-above-budget": [_CONFIGURED, f"{_OPTIMIZE} --maximum-provider-cost-usd 60"],
    "configuration-differs": [_CONFIGURED, "exp config providers --judge w"],
    "configuration-gaps": ["exp config providers --world-model ghost"],
    "journal-wanted": ["exp check --root nowhere"],
    "policy-wanted": [_CONFIGURED, "exp run demo --port 0"],
    "provider-not-loopback": ["exp provider serve --port 0 --host 0.0.0.0"],
}


def load_everything() -> None:
    """Import every module of the product, so that every refusal and every kind is registered."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            importlib.import_module(module.name)


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below one, with the words that reach it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from walk(child, f"{path} {name}")


def command_line() -> str:
    """Return the help of every command."""
    parts = []
    for path, command in walk(cli, "exp"):
        context = click.Context(command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH)
        level = "##" if path == "exp" else "###"
        parts.append(f"{level} `{path}`\n\n```\n{command.get_help(context)}\n```")
    return "\n\n".join(parts) + "\n"


def provoke(lines: list[str]) -> tuple[int, str]:
    """Run command lines in an empty folder; return the last one's exit code and what it printed on stderr."""
    environment = {"PATH": os.defpath, "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as folder:
        done = None
        for line in lines:
            words = [sys.executable, "-P", "-m", "commands.main", *shlex.split(line)[1:]]
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
            )
        if done is None:
            return 0, ""
        return done.returncode, done.stderr.replace(folder, "FOLDER")


def errors() -> str:
    """Return the catalogue of errors, by exit code."""
    load_everything()
    rows = sorted((refusal.exit_code, name, refusal) for name, refusal in REFUSALS.items() if _shipped(refusal))
    parts = ["| exit | name |", "|---|---|", *(f"| {code} | [`{name}`](#{name}) |" for code, name, _ in rows), ""]
    for code, name, refusal in rows:
        parts += [f"## {name}", "", f"Exit code {code}. {_sentence(refusal)}", ""]
        if name in PROVOCATIONS:
            lines = PROVOCATIONS[name]
            _, said = provoke(lines)
            shown = "\n".join(f"$ {line}" for line in lines)
            parts += [f"```\n{shown}\n{said.rstrip()}\n```", ""]
    return "\n".join(parts)


def _shipped(refusal: type[Refusal]) -> bool:
    return refusal.__module__.partition(".")[0] in PACKAGES


def _sentence(refusal: type[Refusal]) -> str:
    return " ".join(inspect.cleandoc(refusal.__doc__ or "").split())


def schemas() -> dict[str, str]:
    """Return the JSON Schema of the envelope, of every event kind's body, and of what is published, by file name."""
    load_everything()
    formats = {"envelope": Envelope, "policy": Policy, "report": Report, "calibration": Calibration}
    named = formats | {kind: KINDS[kind] for kind in KINDS if _is_shipped(KINDS[kind])}
    named |= {kind: OLDER[kind] for kind in OLDER if _is_shipped(OLDER[kind])}
    return {f"{name}.json": _schema(named[name], name) for name in sorted(named)}


def _is_shipped(shape: type) -> bool:
    return shape.__module__.partition(".")[0] in PACKAGES


def kinds() -> str:
    """Return the module that lists every kind this release can read."""
    load_everything()
    names = sorted(kind for kind, shape in (KINDS | OLDER).items() if _is_shipped(shape))
    listed = "".join(f'        "{name}",\n' for name in names)
    return (
        '"""The kinds of events that this release reads, whatever a command loads. Made by tools/generate.py."""'
        f"\n\nRELEASE = frozenset(\n    {{\n{listed}    }}\n)\n"
    )


def _schema(of: Any, title: str) -> str:  # noqa: ANN401 - any type that msgspec knows
    schema = msgspec.json.schema(of)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def commands_in(branch: Branch) -> int:
    """Return how many commands a branch holds, groups not counted."""
    return sum(commands_in(entry) if isinstance(entry, Branch) else 1 for entry in branch.entries.values())
