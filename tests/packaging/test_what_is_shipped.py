"""What is in the tree and in the wheel, and what must not be."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from commands.walkthrough import corpus

HERE = Path(__file__).resolve().parents[2]
# Spelled in pieces, so that this file doesn't name what it looks for.
MACHINE = re.compile("/" + "work/" + "|/" + "opt/" + "|/" + "root/" + "|/home/" + "[a-z]")
REGISTRY = re.compile(
    "pypi" + r"\.org|" + "python" + "hosted|" + "mirror" + r"s?\.|" + "arti" + "factory", re.IGNORECASE
)
READING = {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".sh", ".yml", ""}


def shipped() -> list[Path]:
    """Return the files of the project: those that git knows."""
    if shutil.which("git") is None or not (HERE / ".git").exists():
        pytest.skip("no git here, so nothing says which files are the project's")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=HERE, check=True, capture_output=True).stdout
    names = listed.decode().split("\0")
    return [path for name in names if name and (path := HERE / name).is_file() and path.suffix in READING]


def test_no_file_names_a_place_on_the_machine_it_was_made_on() -> None:
    named = {}
    for path in shipped():
        found = MACHINE.search(path.read_text("utf-8", errors="replace"))
        if found:
            named[str(path.relative_to(HERE))] = found.group()
    assert named == {}


def test_nothing_that_installs_names_a_package_index() -> None:
    places = [HERE / "pyproject.toml", HERE / "start", HERE / ".ci" / "run", *(HERE / "requirements").iterdir()]
    assert [path.name for path in places if REGISTRY.search(path.read_text("utf-8"))] == []


def test_the_lock_names_the_public_index_and_no_other() -> None:
    lock = tomllib.loads((HERE / "uv.lock").read_text("utf-8"))
    sources = {next(iter(package["source"].items())) for package in lock["package"]}
    assert {kind for kind, _ in sources} <= {"registry", "editable"}
    assert len({place for kind, place in sources if kind == "registry"}) == 1


@pytest.mark.parametrize("name", ["run", "test"])
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    text = (HERE / "requirements" / f"{name}.txt").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 10
    assert [line for line in lines if not re.match(r"[\w.\[\]-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []


def test_the_requirements_equal_the_lock() -> None:
    done = subprocess.run(
        [sys.executable, "tools/export_requirements.py", "--check"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["start", ".ci/run"])
def test_the_scripts_are_posix_shell_and_executable(name: str) -> None:
    path = HERE / name
    assert path.stat().st_mode & 0o111
    assert path.read_text("utf-8").startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)


def test_the_gate_runs_the_command_that_the_readme_names() -> None:
    readme = (HERE / "README.md").read_text("utf-8")
    assert "\n./start test\n" in readme
    assert "\n./start\n" in readme
    assert "\n./start test\n" in (HERE / ".ci" / "run").read_text("utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=HERE,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_product_its_corpus_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "commands/main.py" in names
    assert "commands/corpus/shell-sessions.otel.jsonl" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"commands", "ledger", "projections"}


def test_the_command_runs_from_the_wheel_in_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    unpacked, empty = tmp_path / "unpacked", tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(unpacked)
    looked = "import commands.walkthrough as w; print(w.__file__); print(w.corpus())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", looked],
        cwd=empty,
        env={"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    module, traces = done.stdout.splitlines()
    assert Path(module).is_relative_to(unpacked)
    assert Path(traces).is_relative_to(unpacked)


def spans() -> list[list[dict[str, object]]]:
    lines = corpus().read_text("utf-8").splitlines()
    return [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in lines]


def test_the_corpus_is_large_varied_and_has_errors_and_silence() -> None:
    traces = spans()
    assert len(traces) >= 150
    assert len({trace[0]["traceId"] for trace in traces}) == len(traces)
    text = corpus().read_text("utf-8")
    families = set(re.findall(r'"task\.category","value":\{"stringValue":"(\w+)"', text))
    assert len(families) >= 10
    assert text.count('"error.type"') >= 30
    assert text.count('"gen_ai.tool.call.result","value":{"stringValue":""}') >= 50
    assert {len(trace) - 1 for trace in traces} >= {1, 2, 3, 4, 5, 6}


def test_the_corpus_names_no_machine_no_user_and_no_day() -> None:
    text = corpus().read_text("utf-8")
    assert re.search(r"/(?:tmp|usr/local)/|\b20[12]\d-\d\d-\d\d\b", text) is None
