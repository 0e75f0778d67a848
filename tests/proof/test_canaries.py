"""Fifty secrets go in by every way that a secret may take; none comes out, or is kept, anywhere.

Values of configured credentials must go wherever they appear. Texts that look like keys must go from exports, labels,
errors and configuration. What a client asks a model through the gateway is content, and kept as it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from commands.embedded.answer import answer
from commands.main import TREE, run
from commands.opening import read_journal
from ledger.recorded import references
from tests.commands.gateway.running import Gateway
from tests.projections.spans_double import session
from tests.proof.hostile import TASKS
from tests.proof.stage import Reply, Stage, ids, witnessing

_SHAPES = {
    "openai": "sk-{}",
    "anthropic": "sk-ant-{}",
    "github": "ghp_{}",
    "gitlab": "glpat-{}",
    "hugging": "hf_{}",
    "groq": "gsk_{}",
    "slack": "xoxb-{}",
    "amazon": "AKIA{}",
    "google": "AIza{}",
    "npm": "npm_{}",
    "pypi": "pypi-{}",
    "token": "eyJ{0}.eyJ{0}.{0}",
    "bearer": "Bearer {}",
    "private": "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
}


def canary(number: int) -> str:
    """Return letters that are nowhere else: what is looked for."""
    return base64.b32encode(hashlib.blake2b(f"canary {number}".encode(), digest_size=20).digest()).decode()


class Flock:
    """Hands out canaries, each once, and remembers where it was put."""

    def __init__(self, first: int = 0) -> None:
        self.put: dict[str, str] = {}
        self._first = first

    def _next(self) -> str:
        return canary(self._first + len(self.put))

    def bare(self, place: str) -> str:
        """Return a secret without a shape."""
        secret = self._next()
        self.put[secret] = place
        return secret

    def shaped(self, shape: str, place: str) -> str:
        """Return a secret that looks like a key of this kind."""
        core = self._next()
        core = core[:16] if shape == "amazon" else core
        self.put[core] = f"{place}, as {shape}"
        return _SHAPES[shape].format(core)


def forms(secret: str) -> Iterator[bytes]:
    """Yield a secret as it may be written, and the halves of it that may be left standing."""
    half = len(secret) // 2
    yield from (secret[:half].encode(), secret[half:].encode())
    yield quote(secret, safe="").encode()
    yield base64.b64encode(secret.encode())[:-4]
    yield secret[::-1].encode()


def found_in(data: bytes, flock: Flock) -> list[str]:
    return [place for secret, place in flock.put.items() if any(form in data for form in forms(secret))]


class Ordeal:
    """A path on which every way in was given secrets, and everything that came out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flock = flock = Flock()
        self.said: dict[str, bytes] = {}
        self.echoed = {name: flock.bare(f"the credential in {name}") for name in ("PROOF_KEY", "SPARE_KEY", "a file")}
        self.pairs = list(zip(self.echoed, ("openai", "amazon", "github"), strict=True))
        self.errors = [flock.shaped(shape, "a provider's error") for shape in ("openai", "github", "token", "bearer")]
        self._asked = 0
        self.refusing = False
        with witnessing(self._provider) as witness:
            self.stage = Stage(folder, witness.url, traces=self._traces(folder / "export.jsonl"))
            self._surround()
            self._configure(witness.url)
            self._path()
            self._serve()
        self.root = self.stage.root

    def _provider(self, api: str, body: dict[str, Any]) -> Reply:
        """Answer as the stand-in does, repeating the credential that the request came with."""
        if self.refusing:
            return 400, {"error": {"message": f"bad keys {' '.join(self.errors)} {self.echoed['PROOF_KEY']}"}}
        status, said = answer(api, body)
        echoes = " ".join(self.echoed.values())
        for choice in said.get("choices", ()):
            message = choice["message"]
            content = message.get("content")
            if isinstance(content, str) and content.startswith("{"):
                read = json.loads(content)
                if "observation" in read:
                    read["observation"] += f" your key is {echoes}"
                for axis in read.get("axes", {}).values():
                    axis["rationale"] += f" {echoes}"
                message["content"] = json.dumps(read)
            elif isinstance(content, str):
                message["content"] = f"{content} {echoes}"
        if "system_fingerprint" in said:
            said["system_fingerprint"] += f" {echoes}"
        return status, said

    def _traces(self, path: Path) -> Path:
        flock = self.flock
        spans: list[dict[str, Any]] = []
        for number, words in enumerate(TASKS):
            steps = [(f"{words} {step}", f"done {step}") for step in range(1 + number % 2)]
            spans += session(f"{number + 1:032x}", words, steps)
        shapes = iter(_SHAPES)

        def put(place: str) -> str:
            return flock.shaped(next(shapes), f"a trace's {place}")

        for place, name in (("task", "gen_ai.prompt"), ("arguments", "gen_ai.tool.call.arguments")):
            spans[0]["attributes"].append({"key": name, "value": {"stringValue": f"log in with {put(place)} now"}})
        spans[3]["attributes"].append(
            {"key": "gen_ai.tool.message", "value": {"stringValue": f"x {put('observation')} y"}}
        )
        for name in ("authorization", "api_key", "http.request.header.authorization", "db.password", "aws.secret"):
            spans[4]["attributes"].append({"key": name, "value": {"stringValue": put(f"attribute {name}")}})
        spans[6]["attributes"].append({"key": put("attribute name"), "value": {"stringValue": "x"}})
        spans[6]["name"] = put("span name")
        spans[8]["status"] = {"code": "STATUS_CODE_ERROR", "message": put("status message")}
        spans[9]["attributes"].append(
            {
                "key": "trace.metadata",
                "value": {"stringValue": json.dumps({"topic": put("metadata"), put("metadata name"): 1})},
            }
        )
        spans += session(
            put("trace id"), "Draw a map of the harbour with every pier and its depth", [("draw", "drawn")]
        )
        lines = [json.dumps(span).encode() for span in spans]
        lines.append(b'{"broken": "' + flock.shaped("openai", "a broken line").encode())
        path.write_bytes(b"\n".join(lines))
        return path

    def _surround(self) -> None:
        """Put secrets into the environment; two of them are configured credentials."""
        for name in (
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "HTTPS_PROXY_PASSWORD",
            "PGPASSWORD",
            "HF_TOKEN",
        ):
            self.stage.environment[name] = self.flock.bare(f"the environment variable {name}")
        self.stage.environment |= {name: self.echoed[name] for name in ("PROOF_KEY", "SPARE_KEY")}

    def _configure(self, url: str) -> None:
        self.stage.configure()
        key_file = self.folder / "key"
        key_file.write_text(self.echoed["a file"] + "\n")
        common = {"provider": "openai-compatible", "base_url": url}
        for more in (
            {"name": "spare", "api_key_env": "SPARE_KEY"},
            {"name": "filed", "api_key_file": str(key_file)},
        ):
            done = self.stage.exp(
                "config", "providers", "--non-interactive", "--connection-json", json.dumps(common | more)
            )
            assert done.returncode == 0, done.stderr
        flock = self.flock
        wrong: list[Mapping[str, Any]] = [
            {"name": "w", "api_key_env": flock.shaped("openai", "pasted as api_key_env")},
            {"name": "w", "api_key": flock.shaped("groq", "pasted as api_key")},
            {"name": "w", "api_key_env": "PROOF_KEY", "headers": {"x": flock.shaped("gitlab", "pasted as a header")}},
            {"name": "w", "base_url": f"http://me:{flock.shaped('hugging', 'pasted into an address')}@127.0.0.1:1/v1"},
            {"name": "w", "base_url": f"http://127.0.0.1:1/v1?key={flock.shaped('google', 'pasted into a query')}"},
            {"name": "w", "api_key_file": flock.shaped("npm", "pasted as api_key_file")},
            {"name": flock.shaped("slack", "pasted as a name"), "api_key_env": "PROOF_KEY"},
        ]
        for number, connection in enumerate(wrong):
            text = json.dumps({**common, **connection})
            self._take(f"wrong-{number}", "config", "providers", "--non-interactive", "--connection-json", text)

    def _path(self) -> None:
        self._take("build", *self.stage.build)
        self._take("setup", *self.stage.setup)
        proposed = self._take("proposals", *self.stage.calibrate)
        why = [f"{self.echoed[name]} or {self.flock.shaped(shape, 'a rationale')}" for name, shape in self.pairs]
        words, secrets = list(self.stage.labelled(proposed)), iter(why)
        words = [
            word.replace("A label for a trial.", f"It said {next(secrets)}.")
            if "A label for a trial." in word
            else word
            for word in words
        ]
        self._take("labels", *words)
        self._take("optimize", *self.stage.optimize())
        self.refusing = True
        self._take("refused", *self.stage.optimize(maximum_cost="99"), "--maximum-model-calls", "5")
        self.refusing = False

    def _serve(self) -> None:
        flock = self.flock
        with Gateway(self.stage.root, "shell", env=self.stage.environment) as gateway:
            headers = {
                "Cookie": f"session={flock.bare('a cookie')}",
                "X-Api-Key": flock.bare("the header x-api-key"),
                "Proxy-Authorization": flock.shaped("bearer", "the header proxy-authorization"),
                "X-Custom": flock.bare("a header of the client's own"),
                "User-Agent": flock.bare("the header user-agent"),
                "OpenAI-Organization": flock.bare("the header openai-organization"),
                "Idempotency-Key": flock.bare("an idempotency key"),
                "Referer": f"http://me/{flock.bare('the header referer')}",
                "X-Goog-Api-Key": flock.bare("the header x-goog-api-key"),
                "X-Amz-Security-Token": flock.bare("the header x-amz-security-token"),
                "X-Request-Id": flock.shaped("openai", "the header x-request-id"),
            }
            body = {"model": "small", "messages": [{"role": "user", "content": "Say ready."}]}
            answers = [gateway.ask(body, **headers), gateway.ask(body | {"model": "shell"})]
            answers.append(gateway.ask({**body, "model": "shell", "stream": False}))
            self.refusing = True
            answers.append(gateway.ask(body))
            self.refusing = False
            gateway.key = flock.bare("a wrong gateway key")
            answers.append(gateway.ask(body))
            self.said["responses"] = b"\n".join(
                one.content + repr(sorted(one.headers.items())).encode() for one in answers
            )
            assert answers[0].status_code == 200
            assert answers[-1].status_code == 401
            gateway.process.terminate()
            out, err = gateway.process.communicate(timeout=20)
            self.said["run"] = "\n".join([*gateway.printed, out, err]).encode()

    def _take(self, name: str, *words: str) -> str:
        done = self.stage.exp(*words)
        assert done.returncode != 10, done.stderr
        text = done.stdout + done.stderr
        self.said[name] = text.encode()
        return text


@pytest.fixture(scope="module")
def ordeal(tmp_path_factory: pytest.TempPathFactory) -> Ordeal:
    return Ordeal(tmp_path_factory.mktemp("ordeal"))


def contents(root: Path) -> Iterator[bytes]:
    """Yield the plain bytes of every event and of every content."""
    with read_journal(root) as journal:
        for record in journal.events():
            yield record.bytes
            for digest in references(record.bytes):
                yield journal.blob(digest.decode())


def test_fifty_secrets_went_in(ordeal: Ordeal) -> None:
    assert len(ordeal.flock.put) >= 50
    assert ids([ordeal.said["optimize"].decode()]).keys() >= {"policy", "report"}


def test_what_looks_for_them_finds_them(ordeal: Ordeal) -> None:
    for secret in ordeal.flock.put:
        for text in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()):
            assert found_in(f"before {text} after".encode(), ordeal.flock)
    assert found_in((ordeal.folder / "export.jsonl").read_bytes(), ordeal.flock)


def test_none_is_in_an_event_or_a_content(ordeal: Ordeal) -> None:
    for data in contents(ordeal.root):
        assert found_in(data, ordeal.flock) == [], data[:300]


def test_none_is_in_any_file_of_the_root(ordeal: Ordeal) -> None:
    assert run(["query", "SELECT 1", "--root", str(ordeal.root)]) == 0
    paths = [path for path in sorted(ordeal.root.rglob("*")) if path.is_file()]
    assert {"ledger.db", "views.db", "models.toml"} <= {path.name for path in paths}
    for path in paths:
        assert found_in(path.read_bytes() + path.name.encode(), ordeal.flock) == [], path


def test_none_was_said_on_the_way(ordeal: Ordeal) -> None:
    for name, text in ordeal.said.items():
        assert found_in(text, ordeal.flock) == [], (name, text)


@pytest.mark.parametrize(
    "words",
    [
        ("log", "--json"),
        ("log",),
        ("show", "7"),
        ("why", "report-"),
        ("config", "providers", "--json"),
        ("check", "--full"),
        ("query", "SELECT * FROM events", "--json"),
        ("query", "SELECT *, content(asked), content(reply) FROM calls", "--csv"),
        ("query", "SELECT *, content(detail) FROM exclusions", "--json"),
        ("query", "SELECT *, content(rationale) FROM labels", "--json"),
        ("query", "SELECT *, content(asked), content(response) FROM requests", "--json"),
        ("query", "SELECT content(trace) FROM traces", "--json"),
    ],
    ids=" ".join,
)
def test_none_is_in_what_a_command_says(
    words: tuple[str, ...], ordeal: Ordeal, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([*words, "--root", str(ordeal.root)]) == 0
    said = capsys.readouterr()
    assert found_in((said.out + said.err).encode(), ordeal.flock) == []


def test_none_is_in_what_is_carried_away(ordeal: Ordeal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.db"
    assert run(["query", "--output", str(target), "--root", str(ordeal.root)]) == 0
    with sqlite3.connect(target) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone()[0] >= 3
    connection.close()
    named = ids([ordeal.said["optimize"].decode()])
    ways = {
        "report": (named["report"], "--html", str(tmp_path / "report.html")),
        "export": (named["policy"], str(tmp_path / "bundle")),
        "backup": (str(tmp_path / "backup"),),
        "diff": (named["policy"], named["report"], "--html", str(tmp_path / "diff.html")),
    }
    for name, words in ways.items():
        if name in TREE.entries:
            run([name, *words, "--root", str(ordeal.root)])
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            assert found_in(path.read_bytes(), ordeal.flock) == [], path
    said = capsys.readouterr()
    assert found_in((said.out + said.err).encode(), ordeal.flock) == []


def test_a_reason_for_erasing_keeps_none(
    ordeal: Ordeal, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROOF_KEY", ordeal.echoed["PROOF_KEY"])
    stage = Stage(tmp_path, ordeal.stage.url)
    stage.root.mkdir()
    for path in ordeal.root.glob("ledger.db"):
        (stage.root / path.name).write_bytes(path.read_bytes())
    with read_journal(stage.root) as journal:
        digest = next(name.decode() for record in journal.events() for name in references(record.bytes))
    flock = Flock(100)
    reason = f"it held {flock.shaped('github', 'a reason')} and {ordeal.echoed['PROOF_KEY']}"
    assert run(["erase", digest, "--reason", reason, "--yes", "--root", str(stage.root)]) == 0
    said = capsys.readouterr()
    with read_journal(stage.root) as journal:
        last = list(journal.events())[-1]
        (why,) = [journal.blob(name.decode()) for name in references(last.bytes)]
    assert why == b"it held [redacted] and [redacted]"
    for each in (flock, ordeal.flock):
        assert found_in(why + last.bytes + (said.out + said.err).encode(), each) == []
