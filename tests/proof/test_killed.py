"""Killed after any commit, a command run again loses no answer, pays for no answer twice, and ends with equal ids."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.opening import open_journal
from ledger.families.calls import CallAnswered, CallLost
from tests.proof.stage import Stage, Witness, ids, witnessing

SAMPLED = {"build": (1, 2, 4), "calibrate": (1, 2), "optimize": (1, 2, 9, 20)}
CASES = [(command, commits) for command, sampled in SAMPLED.items() for commits in sampled]


class Undisturbed:
    """The path taken once: roots as they were before each command, what it printed, and what it asked for."""

    def __init__(self, folder: Path, witness: Witness) -> None:
        self.stage = Stage(folder, witness.url)
        self.stage.configure()
        self.outputs: dict[str, dict[str, str]] = {}
        self.calls: dict[str, int] = {}
        self.commands: dict[str, tuple[str, ...]] = {}
        self._take("build", self.stage.build, witness)
        assert self.stage.exp(*self.stage.setup).returncode == 0
        proposals = self._take("calibrate", self.stage.calibrate, witness, status=12)
        assert self.stage.exp(*self.stage.labelled(proposals)).returncode == 0
        self._take("optimize", self.stage.optimize(), witness)

    def _take(self, name: str, command: tuple[str, ...], witness: Witness, status: int = 0) -> str:
        shutil.copytree(self.stage.root, self.before(name))
        asked = witness.count
        done = self.stage.exp(*command)
        assert done.returncode == status, done.stderr
        self.commands[name] = command
        self.calls[name] = witness.count - asked
        self.outputs[name] = ids([done.stdout])
        return done.stdout + done.stderr

    def before(self, name: str) -> Path:
        """The root as it was before a command."""
        return self.stage.folder / f"before-{name}"


@pytest.fixture(scope="module")
def witness() -> Iterator[Witness]:
    with witnessing() as one:
        yield one


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, witness: Witness) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"), witness)


def counted(root: Path, *, kind: type[CallAnswered | CallLost]) -> int:
    """Return how many events of a kind a journal holds."""
    with open_journal(root, "proof") as journal:
        return sum(1 for _ in journal.events(kind))


def answers(root: Path) -> dict[str, bytes]:
    """Return the id of each recorded answer by its key."""
    with open_journal(root, "proof") as journal:
        return {record.key or "": record.id for record in journal.events(CallAnswered)}


@pytest.mark.parametrize(("name", "commits"), CASES)
def test_a_command_killed_after_a_commit_is_finished_by_the_same_command(
    name: str, commits: int, undisturbed: Undisturbed, witness: Witness, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, witness.url)
    shutil.copytree(undisturbed.before(name), stage.root)
    asked = witness.count
    killed = stage.exp(*undisturbed.commands[name], dies_after=commits)
    assert killed.returncode == -signal.SIGKILL, "the command ended before it was killed: sample fewer commits"
    paid = answers(stage.root)
    done = stage.exp(*undisturbed.commands[name])
    assert done.returncode == (12 if name == "calibrate" else 0), done.stderr
    assert ids([done.stdout]) == undisturbed.outputs[name]
    assert paid.items() <= answers(stage.root).items()
    lost = counted(stage.root, kind=CallLost)
    assert witness.count - asked <= undisturbed.calls[name] + lost
    assert stage.exp("check", "--full").stdout == ""
