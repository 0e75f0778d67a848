"""Recorded text is data: in no output does it act on a terminal, a browser, a spreadsheet or a formatter.

Hostile text goes in wherever text goes in: exports, rubric, answers and errors of providers, rationales, requests and
headers of the gateway, names on the command line, reasons for erasing. Then every command there is says what it says.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.main import TREE, Branch, run
from commands.opening import open_journal, read_journal
from ledger.families import calls
from tests.commands.gateway.running import Gateway
from tests.proof import hostile
from tests.proof.hostile import ACTING, HOSTILE, KEPT, MARKUP
from tests.proof.stage import Stage, ids, model, witnessing

SERVERS = {("run",), ("provider", "serve"), ("quickstart",)}  # they don't end, or take a path of their own


class Fouled:
    """A root in which every text is hostile, what the commands said on the way, and the ids they printed."""

    def __init__(self, folder: Path) -> None:
        self.said: dict[str, str] = {}
        with witnessing(hostile.provider) as witness:
            self.stage = stage = Stage(folder, witness.url, traces=hostile.traces(folder / "t<img src=x>%s{0}.jsonl"))
            stage.configure()
            stage.configure(model("other", "embedded-other"))
            self._take("build", *stage.build)
            self._take("setup", *stage.setup, "--rubric-file", str(hostile.rubric(folder / "rubric.json")))
            proposed = self._take("proposals", *stage.calibrate, code=12)
            labelled = [
                HOSTILE.join((word.partition("=")[0] + "=", "")) if word.endswith("=A label for a trial.") else word
                for word in stage.labelled(proposed)
            ]
            self._take("labels", *labelled)
            self._take("optimize", *stage.optimize())
            self._serve()
        with witnessing(hostile.refusing) as witness:
            connection = {"name": "proof", "provider": "openai-compatible", "api_key_env": "PROOF_KEY"}
            moved = json.dumps({**connection, "base_url": witness.url})
            self._take("configure", "config", "providers", "--non-interactive", "--connection-json", moved, "--replace")
            done = stage.exp(*stage.optimize("small", "large", "other"))
            assert done.returncode not in (0, 10), done.stderr
            self.said["refused"] = done.stdout + done.stderr
        self.root = stage.root
        self.ids = ids([self.said["build"], self.said["labels"], self.said["optimize"]])

    def _take(self, name: str, *words: str, code: int = 0) -> str:
        done = self.stage.exp(*words)
        assert done.returncode == code, (name, done.stderr)
        self.said[name] = done.stdout + done.stderr
        return self.said[name]

    def _serve(self) -> None:
        with Gateway(self.stage.root, "shell", env={"PROOF_KEY": "proof-credential-value-7a61"}) as gateway:
            for name in ("small", "shell", HOSTILE):
                body = {"model": name, "messages": [{"role": "user", "content": HOSTILE}], "user": HOSTILE}
                got = gateway.ask(body, key="".join(filter(str.isascii, MARKUP.sub("", HOSTILE)))[30:60] or None)
                assert not ACTING.search(str(got.headers))
            gateway.process.terminate()
            out, err = gateway.process.communicate(timeout=20)
            self.said["run"] = "\n".join([*gateway.printed, out, err])


@pytest.fixture(scope="module")
def fouled(tmp_path_factory: pytest.TempPathFactory) -> Fouled:
    return Fouled(tmp_path_factory.mktemp("fouled"))


def leaves(branch: Branch, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, entry in branch.entries.items():
        if isinstance(entry, Branch):
            yield from leaves(entry, (*path, name))
        else:
            yield (*path, name)


COMMANDS = [path for path in leaves(TREE) if path not in SERVERS]


def harmless(text: str) -> None:
    found = ACTING.search(text)
    assert found is None, repr(text[max(found.start() - 80, 0) : found.end() + 80])


def test_nothing_that_was_said_on_the_way_acts(fouled: Fouled) -> None:
    assert KEPT in fouled.said["proposals"]
    for text in fouled.said.values():
        assert "Traceback" not in text
        harmless(text)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_command_lets_recorded_text_act(
    path: tuple[str, ...],
    fouled: Fouled,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    root = Stage(tmp_path, fouled.stage.url).root
    copied = subprocess.run(["cp", "-r", str(fouled.root), str(root)], check=True)
    assert copied.returncode == 0
    said = 0
    for words in ((), (fouled.ids["policy"],), ("shell",), (HOSTILE,), (HOSTILE[:40], str(tmp_path / "out")), ("7",)):
        for more in ((), ("--json",)):
            capsys.readouterr()
            run([*path, *words, *more, "--root", str(root)])
            got = capsys.readouterr()
            said += len(got.out) + len(got.err)
            assert "Traceback" not in got.err
            assert "unforeseen place" not in got.err, got.err
            harmless(got.out)
            harmless(got.err)
    assert said
    for page in tmp_path.rglob("*.html"):
        unescaped(page.read_text("utf-8"))


def unescaped(page: str) -> None:
    harmless(page)
    assert not MARKUP.search(page)


READS = {
    "log": (("--stream", "cell:*"), ("--kind", "call-failed"), ("--kind", "model-configured")),
    "query": (
        ("SELECT *, content(reply), content(asked) FROM calls",),
        ("SELECT *, content(detail) FROM exclusions",),
        ("SELECT *, content(rationale) FROM labels",),
        ("SELECT *, content(asked), content(response) FROM requests",),
        ("SELECT content(trace) FROM traces",),
        (f'SELECT {"x"!r} AS "{HOSTILE.replace(chr(34), "")}"',),
    ),
}


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, some in READS.items() for words in some])
def test_a_reading_of_contents_does_not_act_in_any_form(
    name: str, words: tuple[str, ...], fouled: Fouled, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ((), ("--json",), ("--csv",)) if name == "query" else ((), ("--json",)):
        capsys.readouterr()
        assert run([name, *words, *form, "--root", str(fouled.root)]) == 0
        got = capsys.readouterr()
        harmless(got.out + got.err)
        assert got.out


def test_no_text_is_a_formula_to_a_spreadsheet(fouled: Fouled, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT '=HYPERLINK(1)', '+1', '-1', '@SUM(1)', char(9) || '=1', char(13) || '=1', char(27) || '[m=1', -1"
    assert run(["query", sql, "--csv", "--root", str(fouled.root)]) == 0
    (_, row) = csv.reader(io.StringIO(capsys.readouterr().out))
    assert [cell[:1] for cell in row[:-1]] == ["'"] * 7
    assert row[-1] == "-1"


def test_every_event_and_every_content_can_be_shown(fouled: Fouled, capsys: pytest.CaptureFixture[str]) -> None:
    with read_journal(fouled.root) as journal:
        newest = {record.kind: record.seq for record in journal.events()}
    assert len(newest) > 20
    for seq in newest.values():
        for name in ("show", "why", "cat"):
            for more in ((), ("--json",))[name == "cat" :]:  # a pipe gets every byte as it is
                capsys.readouterr()
                assert run([name, str(seq), *more, "--root", str(fouled.root)]) == 0
                got = capsys.readouterr()
                harmless(got.out + got.err)


def test_json_keeps_what_it_escapes(fouled: Fouled, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT content(rationale) AS said FROM labels LIMIT 1"
    assert run(["query", sql, "--json", "--root", str(fouled.root)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"said": HOSTILE}]


def test_a_terminal_is_shown_what_a_pipe_gets_without_what_acts(fouled: Fouled) -> None:
    with open_journal(fouled.root, "test", calls.FAMILY) as journal:
        label = next(record for record in journal.events() if record.kind == "label-recorded@1")
        digest = json.loads(label.bytes)["body"]["rationale"]["blob"]
    for words in (("cat", digest), ("show", str(label.seq)), ("log", "--kind", "label-recorded")):
        parent, child = pty.openpty()
        subprocess.run(fouled.stage.command(*words), check=True, stdout=child, stderr=child, cwd=fouled.stage.folder)
        os.close(child)
        shown = b""
        while True:
            try:
                more = os.read(parent, 65_536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            shown += more
        os.close(parent)
        harmless(shown.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize(
    "name",
    [f"{hostile.ESCAPES}root", f"root{hostile.MARKED.replace('/', '')}", "%s%n{0}"],
    ids=["escapes", "markup", "format"],
)
def test_a_root_s_own_name_does_not_act(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], fouled: Fouled
) -> None:
    for words in (
        ("check",),
        ("config", "providers"),
        ("log",),
        ("query", "SELECT 1"),
        ("show", "1"),
        ("optimize", "router", "x"),
    ):
        for more in ((), ("--json",)):
            capsys.readouterr()
            run([*words, *more, "--root", str(tmp_path / name)])
            got = capsys.readouterr()
            assert "unforeseen place" not in got.err
            harmless(got.out + got.err)
