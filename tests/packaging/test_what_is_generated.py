"""The generated pages and schemas equal their sources."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.errors import REFUSALS
from ledger.event import KINDS
from tools import reference

HERE = Path(__file__).resolve().parents[2]


def test_every_event_kind_has_its_schema() -> None:
    wanted = reference.schemas()
    assert {path.name for path in (HERE / "schema").glob("*.json")} == set(wanted)
    for name, text in wanted.items():
        assert (HERE / "schema" / name).read_text("utf-8") == text, f"{name}; run python tools/generate.py"


def test_a_schema_accepts_no_other_field() -> None:
    for name, text in reference.schemas().items():
        schema = json.loads(text)
        body = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        assert body["additionalProperties"] is False, name


def test_the_generated_pages_equal_their_sources() -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate.py", "--check"], cwd=HERE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def shipped_refusals() -> list[str]:
    reference.load_everything()
    return sorted(name for name, refusal in REFUSALS.items() if not refusal.__module__.startswith("tests"))


def test_every_error_has_an_entry_and_a_sentence() -> None:
    page = (HERE / "docs" / "errors.md").read_text("utf-8")
    for name in shipped_refusals():
        assert f"\n## {name}\n" in page, name
        assert REFUSALS[name].__doc__, name


def test_exit_codes_of_errors_are_ten_and_up() -> None:
    for name in shipped_refusals():
        code = REFUSALS[name].exit_code
        assert 10 <= code < 128 or 200 <= code < 255, name  # a shell's own are between: 128 and the signal


@pytest.mark.parametrize("name", reference.PROVOCATIONS)
def test_an_input_that_provokes_an_error_still_does(name: str) -> None:
    reference.load_everything()
    status, said = reference.provoke(reference.PROVOCATIONS[name])
    assert status == REFUSALS[name].exit_code
    assert said.startswith("exp: ")
    assert "Traceback" not in said
    assert len(said.splitlines()) >= 3


def test_every_kind_is_past_tense_with_a_version() -> None:
    reference.load_everything()
    for kind in KINDS:
        words, mark, version = kind.partition("@")
        assert mark, kind
        assert version.isdigit(), kind
        assert words.replace("-", "").isalpha(), kind
