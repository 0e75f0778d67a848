"""Replaying: what was published is computed again from the journal alone, and the first difference is named."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.main import run
from commands.optimizing.refusals import ReplayDiffers
from commands.replaying import isolation
from ledger.event import Step
from ledger.families import providers
from ledger.families.providers import ConfigureProviders, Connection
from ledger.verify import verify
from tests.proof.forging import Forger
from tests.proof.laboratory import Facts, Laboratory, priced, trace


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("taken") / "root").taken()


@pytest.fixture
def root(taken: Laboratory, tmp_path: Path) -> Path:
    shutil.copytree(taken.root, tmp_path / "root")
    return tmp_path / "root"


Replay = Callable[..., tuple[int, dict[str, Any], dict[str, Any]]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    def replayed(root: Path, *arguments: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
        capsys.readouterr()
        status = run(["replay", *arguments, "--root", str(root), "--json"])
        said = capsys.readouterr()
        return status, json.loads(said.out or "{}"), json.loads(said.err or "{}").get("error", {})

    return replayed


KINDS = ("build", "calibration", "run", "policy", "report")


def test_everything_that_was_published_comes_out_identical_and_nothing_is_written(root: Path, replay: Replay) -> None:
    before = (root / "ledger.db").read_bytes()
    status, said, _ = replay(root)
    assert status == 0
    assert {kind: [one["status"] for one in said[kind]] for kind in KINDS} == {kind: ["identical"] for kind in KINDS}
    assert (root / "ledger.db").read_bytes() == before


def test_a_result_stays_reproducible_when_everything_is_configured_anew(
    taken: Laboratory, root: Path, replay: Replay
) -> None:
    models = {alias: (f"{name}-anew", able) for alias, (name, able) in taken.facts.models.items()}
    later = Laboratory(root, Facts(models=models | {"cheap": ("other", priced(3))}, labels={0: 0}))
    later.prepared()
    elsewhere = Connection(name="lab", provider="openai-compatible", base_url="http://127.0.0.1:10/v1")
    later.record(Step(providers.FAMILY, ConfigureProviders(connections=(elsewhere,), replace=True)))
    later.journal.close()
    status, said, _ = replay(root)
    assert status == 0
    assert [len(said[kind]) for kind in KINDS] == [2, 2, 1, 1, 1]
    again = replay(root, taken.run)[1]
    assert [one["id"] for one in again["run"]] == [taken.run]
    assert "build" not in again


def test_a_name_may_be_shortened_and_must_mean_one_thing(taken: Laboratory, root: Path, replay: Replay) -> None:
    policy = taken.finished.frozen.policy.id
    assert replay(root, policy[:14])[1]["policy"][0]["id"] == policy
    assert replay(root, policy.removeprefix("policy-")[:8])[1]["policy"][0]["id"] == policy
    assert replay(root, "nowhere")[2]["name"] == "nothing-published-as"
    names = {name[0] for name in (taken.run, policy)}
    assert names == {"o", "p"}
    status, _, error = replay(root, "")
    assert (status, error["name"]) == (214, "nothing-published-as")
    taken_twice = Laboratory(root, Facts(candidates=("cheap", "dear", "middling")))
    taken_twice.prepared()
    taken_twice.optimize()
    taken_twice.journal.close()
    status, _, error = replay(root, "optimize-")
    assert (status, error["name"]) == (215, "name-ambiguous")


def test_what_a_judge_is_asked_once_more_counts_from_then_on(taken: Laboratory, root: Path, replay: Replay) -> None:
    later = Laboratory(root, Facts(asked=2))
    later.calibrate()
    later.journal.close()
    status, said, _ = replay(root, "calibration-")
    assert (status, said) == (215, {})  # two of them now
    status, said, _ = replay(root)
    assert status == 0
    assert len(said["calibration"]) == 2


def test_a_result_keeps_the_prices_that_it_was_made_with(taken: Laboratory, root: Path, replay: Replay) -> None:
    later = Laboratory(root, Facts(models={**taken.facts.models, "cheap": ("model-cheap", priced(3))}))
    later.configure()
    later.journal.close()
    assert replay(root)[0] == 0


def test_labels_given_later_do_not_change_what_was_published_before(
    taken: Laboratory, root: Path, replay: Replay
) -> None:
    later = Laboratory(root, Facts(labels={0: 0}))
    later.calibrate()
    later.journal.close()
    status, said, _ = replay(root)
    assert (status, len(said["calibration"])) == (0, 2)


def test_an_empty_journal_has_nothing_to_replay(tmp_path: Path, replay: Replay) -> None:
    Laboratory(tmp_path).journal.close()
    status, said, _ = replay(tmp_path)
    assert status == 0
    assert "nothing is published" in said["notes"][0]


def forged(root: Path, change: Callable[[Forger], None]) -> None:
    """Change facts in a journal so that it still verifies."""
    forger = Forger(root)
    change(forger)
    forger.write()
    assert verify(root / "ledger.db", full=True) == []


def differing(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {kind: one for kind in KINDS for one in said.get(kind, ()) if one["status"] != "identical"}


def test_another_score_in_a_policy_is_named_with_the_judgments_that_it_should_come_from(
    root: Path, replay: Replay
) -> None:
    def change(forger: Forger) -> None:
        reference = forger.body("policy-frozen@1")["content"]
        policy = json.loads(forger.content(reference))
        policy["rows"][1]["scores"][0] = 123_456
        forger.replace(reference, json.dumps(policy, sort_keys=True, separators=(",", ":")).encode())

    forged(root, change)
    status, said, _ = replay(root)
    policy = differing(said)["policy"]
    assert status == 1
    assert (policy["pointer"], policy["recorded"], policy["derived"]) == ("/rows/1/scores/0", "123456", "700000")
    events = Forger(root).events
    assert {events[int(seq) - 1][1] for seq in policy["events"].split()} == {"cell-finished@1", "judgment-recorded@1"}
    assert len(policy["events"].split()) == 2


def test_another_route_in_a_report_is_named(root: Path, replay: Replay) -> None:
    def change(forger: Forger) -> None:
        reference = forger.body("report-published@1")["content"]
        report = json.loads(forger.content(reference))
        report["routed"][0]["alias"] = "cheap"
        forger.replace(reference, json.dumps(report, sort_keys=True, separators=(",", ":")).encode())

    forged(root, change)
    report = differing(replay(root)[1])["report"]
    assert (report["pointer"], report["recorded"], report["derived"]) == ("/routed/0/alias", '"cheap"', '"dear"')
    assert len(report["events"].split()) == 4  # two candidates' cells of that task, each finished and judged


def test_another_name_of_the_same_policy_is_named(root: Path, replay: Replay) -> None:
    forged(root, lambda forger: forger.body("policy-frozen@1").update(policy="policy-0"))
    found = differing(replay(root)[1])
    assert (found["policy"]["pointer"], found["policy"]["recorded"]) == ("/id", '"policy-0"')


def test_another_judgment_is_named_with_its_pointer(root: Path, replay: Replay) -> None:
    def change(forger: Forger) -> None:
        cell = forger.body("cell-finished@1")["cell"]
        forger.body("judgment-recorded@1", subject=cell)["score"] = 5

    forged(root, change)
    found = differing(replay(root)[1])["run"]
    assert (found["pointer"], found["recorded"]) == ("/score", "5")
    assert Forger(root).events[int(found["events"]) - 1][1] == "judgment-recorded@1"


def test_another_label_is_another_calibration(root: Path, replay: Replay) -> None:
    forged(root, lambda forger: forger.body("label-recorded@1").update(score=250_000))
    found = differing(replay(root)[1])
    assert list(found) == ["calibration"]
    assert found["calibration"]["pointer"] == "/calibration"


def test_another_proposal_of_the_judge_is_named(root: Path, replay: Replay) -> None:
    forged(root, lambda forger: forger.body("judgment-recorded@1").update(score=250_000))
    found = differing(replay(root)[1])
    assert list(found) == ["calibration"]
    assert found["calibration"]["pointer"] == "/score"


def test_another_task_in_a_build_is_named_with_its_traces(root: Path, replay: Replay) -> None:
    def change(forger: Forger) -> None:
        reference = forger.body("build-completed@1")["manifest"]
        manifest = json.loads(forger.content(reference))
        manifest["tasks"][0]["stratum"] = "another"
        forger.replace(reference, json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())

    forged(root, change)
    found = differing(replay(root)[1])["build"]
    assert (found["pointer"], found["recorded"]) == ("/manifest/tasks/0/stratum", '"another"')
    assert {Forger(root).events[int(seq) - 1][1] for seq in found["events"].split()} == {"trace-imported@1"}


def test_another_vector_in_a_build_is_named_with_the_event_that_has_the_text_s_own(root: Path, replay: Replay) -> None:
    def change(forger: Forger) -> None:
        reference = forger.body("build-completed@1")["vectors"]
        vectors = bytearray(forger.content(reference))
        vectors[32 * 3] ^= 1
        forger.replace(reference, bytes(vectors))

    forged(root, change)
    found = differing(replay(root)[1])["build"]
    assert found["pointer"] == "/vectors/3"
    assert Forger(root).events[int(found["events"]) - 1][1] == "text-embedded@1"


def test_other_inputs_of_an_optimization_are_named(root: Path, replay: Replay) -> None:
    forged(root, lambda forger: forger.body("optimization-started@1")["inputs"].update(tolerance=1))
    said = replay(root)[1]
    found = differing(said)["run"]
    # how much worse is allowed was asked for, so it is taken as recorded; the run's name follows from it
    assert found["pointer"] == "/run"
    assert found["recorded"] != found["derived"]
    assert not said.keys() & {"policy", "report"}  # what would follow from other inputs says nothing of these


def test_rules_of_another_release_are_named_and_not_guessed(root: Path, replay: Replay) -> None:
    forged(root, lambda forger: forger.body("optimization-started@1")["inputs"].update(versions=["rollout@0"]))
    found = differing(replay(root)[1])["run"]
    assert found["status"] == "not-reproducible"
    assert "rollout@0" in found["why"]


def test_a_run_whose_beginning_is_missing_is_not_reproducible(root: Path, replay: Replay) -> None:
    def change(forger: Forger) -> None:
        forger.events = [event for event in forger.events if event[1] != "optimization-started@1"]

    forged(root, change)
    found = differing(replay(root)[1])["run"]
    assert (found["status"], "how it started" in found["why"]) == ("not-reproducible", True)


def test_a_question_that_has_no_answer_is_named_with_the_nearest_and_the_first_pointer(
    root: Path, replay: Replay
) -> None:
    def change(forger: Forger) -> None:
        reference = forger.body("world-model-answered@1")["reply"]
        said = forger.content(reference)
        assert b"as asked" in said
        forger.replace(reference, said.replace(b"as asked", b"as wished"))

    forged(root, change)
    status, said, error = replay(root)
    assert (status, error["name"]) == (52, "question-not-in-journal")
    assert "differs first at /request/messages/3/content" in error["what"]
    assert differing(said)["run"]["status"] == "differs"
    assert said["build"][0]["status"] == "identical"


def test_what_was_erased_is_not_reproducible_and_never_another_number(root: Path, replay: Replay) -> None:
    erased = trace(3)
    lab = Laboratory(root)
    digest = next(
        record.key
        for record in lab.journal.events()
        if record.kind == "trace-imported@1" and _is(lab, record.key, erased)
    )
    lab.journal.close()
    assert run(["erase", str(digest), "--reason", "asked to", "--yes", "--root", str(root)]) == 0
    status, said, _ = replay(root)
    assert status == 1
    assert {one["status"] for one in differing(said).values()} == {"not-reproducible"}
    assert "erased" in differing(said)["build"]["why"]


def _is(lab: Laboratory, digest: str | None, wanted: Any) -> bool:
    return bool(json.loads(lab.journal.blob(str(digest)))["name"] == wanted.name)


def test_a_damaged_journal_is_refused_before_anything_is_computed(root: Path, replay: Replay) -> None:
    forger = Forger(root)
    forger.events[5][5]["at"] += 1
    forger.write()
    with (root / "ledger.db").open("r+b") as file:
        content = file.read()
        place = content.index(b'"budget-set@1"')
        file.seek(place + 1)
        file.write(b"B")
    status, said, error = replay(root)
    assert (status, error["name"], said) == (80, "journal-unsound", {})


def test_a_replay_can_reach_nobody(root: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    def reaching(*_: object) -> None:
        socket.create_connection(("127.0.0.1", 9))

    monkeypatch.setattr("commands.replaying.Endpoints", reaching)
    assert replay(root)[2]["name"] == isolation.ReplayReachedOut.name


def test_a_difference_says_where_in_its_own_words() -> None:
    assert "event 7 doesn't fit" in ReplayDiffers(7, "call-answered@1", "so").what
