"""The same evidence gives the same ids: from another path, in another order of arrival, from two processes at once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from commands.opening import open_journal
from ledger.families import calls
from ledger.families.calls import CallAnswered, CallFailed, CallLost, CallReserved
from tests.proof.stage import Stage, ids, witnessing


def taken(stage: Stage, *, to_the_end: bool = True) -> dict[str, str]:
    """Take the path and return every id that it printed."""
    stage.configure()
    built = stage.exp(*stage.build)
    assert built.returncode == 0, built.stderr
    assert stage.exp(*stage.setup).returncode == 0
    proposed = stage.exp(*stage.calibrate)
    assert proposed.returncode == 12, proposed.stderr
    calibrated = stage.exp(*stage.labelled(proposed.stdout + proposed.stderr))
    assert calibrated.returncode == 0, calibrated.stderr
    if not to_the_end:
        return ids([built.stdout, calibrated.stdout])
    optimized = stage.exp(*stage.optimize())
    assert optimized.returncode == 0, optimized.stderr
    return ids([built.stdout, calibrated.stdout, optimized.stdout])


def test_another_path_another_url_and_another_order_of_answers_give_the_same_ids(tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "export.jsonl"
    moved.parent.mkdir()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with witnessing() as quick:
        stage = Stage(first, quick.url)
        printed = taken(stage)
        shutil.copy(stage.traces, moved)
        with open_journal(stage.root, "proof", calls.FAMILY) as journal:
            recorded = sum(1 for _ in journal.events(CallReserved))
        assert recorded == quick.count
    assert len(printed) == 7
    with witnessing(seconds=lambda count: (count * 7 % 5) / 200) as uneven:
        assert taken(Stage(second, uneven.url, traces=moved)) == printed


def test_two_optimizations_at_once_make_no_call_twice_and_agree(tmp_path: Path) -> None:
    with witnessing(seconds=lambda _: 0.02) as witness:
        stage = Stage(tmp_path, witness.url)
        taken(stage, to_the_end=False)
        asked = witness.count
        command = stage.command(*stage.optimize())
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        both = [
            subprocess.Popen(command, env=stage.environment, cwd=tmp_path, text=True, **pipes)  # type: ignore[call-overload]
            for _ in range(2)
        ]
        outputs = [process.communicate(timeout=120) for process in both]
        assert [process.returncode for process in both] == [0, 0], outputs
        assert ids([outputs[0][0]]) == ids([outputs[1][0]])
        bodies = [body for body in witness.bodies[asked:] if b'"messages"' in body]
        assert len(bodies) == len(set(bodies))
        with open_journal(stage.root, "proof", calls.FAMILY) as journal:
            assert sum(1 for _ in journal.events(CallReserved)) == witness.count
            assert not list(journal.events(CallLost, CallFailed))


def test_an_interrupted_optimization_leaves_nothing_open_and_no_traceback(tmp_path: Path) -> None:
    with witnessing(seconds=lambda count: 0.0 if count < 20 else 0.3) as witness:
        stage = Stage(tmp_path, witness.url)
        taken(stage, to_the_end=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            asked = witness.count
            process = subprocess.Popen(
                stage.command(*stage.optimize()),
                env=stage.environment,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            while witness.count < asked + 3:
                time.sleep(0.01)
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 128 + number
            assert "Traceback" not in errors
            with open_journal(stage.root, "proof", calls.FAMILY) as journal:
                answered = {record.key for record in journal.events(CallAnswered)}
                assert answered
                assert not journal.state(calls.FAMILY).open
        assert stage.exp(*stage.optimize()).returncode == 0
