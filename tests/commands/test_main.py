import json
from collections.abc import Iterator

import click
import pytest
from inline_snapshot import snapshot

from commands import main
from commands.cli.options import usd
from ledger.errors import REFUSALS, Refusal
from ledger.money import nano_usd


class SampleWontDo(Refusal, name="sample-wont-do", exit_code=9_999):
    """For these tests."""

    def __init__(self, what: str = "it can't be done") -> None:
        super().__init__(what, where="input 7", remedy="do this\nor that")


@pytest.fixture(autouse=True)
def _no_trace_of_the_sample() -> Iterator[None]:
    yield
    REFUSALS.setdefault("sample-wont-do", SampleWontDo)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, *arguments: str) -> int:
    def fail() -> None:
        raise error

    monkeypatch.setattr(main.cli, "get_command", lambda _ctx, name: click.Command(name, callback=fail, params=[JSON]))
    return main.run(["sample", *arguments])


JSON = click.Option(["--json"], is_flag=True, expose_value=False)


def test_a_refusal_leaves_in_lines_that_say_what_where_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(monkeypatch, SampleWontDo()) == 9_999
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "exp: it can't be done\n  in input 7\n  do this\n  or that\n"


def test_a_refusal_is_an_object_in_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(monkeypatch, SampleWontDo(), "--json") == 9_999
    said = json.loads(capsys.readouterr().err)
    assert said == {
        "error": {
            "name": "sample-wont-do",
            "what": "it can't be done",
            "where": "input 7",
            "remedy": "do this\nor that",
        }
    }


def test_a_refusal_is_found_inside_a_group(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("tasks", [ValueError("no"), ExceptionGroup("inner", [SampleWontDo()])])
    assert failing(monkeypatch, group) == 9_999
    assert "it can't be done" in capsys.readouterr().err


def test_what_no_rule_foresaw_leaves_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EXP_DEBUG", raising=False)
    assert failing(monkeypatch, ZeroDivisionError("integer \x1b[31mdivision")) == 10
    err = capsys.readouterr().err
    assert err.startswith("exp: ZeroDivisionError: integer division\n")
    assert "Traceback" not in err


def test_a_debugger_gets_the_exception_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXP_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        failing(monkeypatch, ZeroDivisionError())


def test_an_interrupt_has_the_exit_code_of_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(monkeypatch, KeyboardInterrupt()) == 130


def test_a_wrong_command_line_is_an_error_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "nothing"]) == 2
    assert capsys.readouterr().err == "exp: No such command 'nothing'.\n  in exp config\n  see `exp config --help`\n"
    assert main.run(["config", "nothing", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["name"] == "usage"


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config"]) == 2
    assert "providers" in capsys.readouterr().err


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    assert capsys.readouterr().out == snapshot("""\
Usage: exp [OPTIONS] COMMAND [ARGS]...

  Build, judge and route from agent traces, on an immutable ledger.

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.

Commands:
  backup             Copy the journal, verified, while it is in use.
  build              Import traces and build a grounded world model.
  cat                Print the exact bytes of an event or a content.
  check              Verify the journal; silent when all is well.
  checkpoint         Say what the journal holds, to be kept elsewhere.
  config             Configure providers, budget and judge.
  diff               Compare two runs, builds or calibrations.
  doctor             Say what the root is like and what needs doing.
  erase              Remove a content for ever, and keep the proof.
  export             Carry a run away in one file.
  gateway            Keys, limits and usage of the gateway.
  import             Bring in what was made elsewhere.
  ingest             Import traces of many products.
  judge              Label what a judge is compared with.
  log                List events, one a line.
  optimize           Learn from simulated rollouts.
  prove              Prove that an event is in the journal.
  provider           The embedded provider.
  query              Ask in SQL about what is recorded.
  quickstart         Take the whole path on a shipped corpus, offline.
  replay             Compute again what was published, and compare.
  report             Show what an optimization came to, as tables or a page.
  run                Serve the routed models on loopback.
  show               Show an event with its causes and effects.
  verify-checkpoint  Tell whether the journal only grew since; silent when it
                     did.
  why                Show what a value comes from.
""")


@pytest.mark.parametrize(("text", "nano"), [("75", 75 * 10**9), ("$0.2", 2 * 10**8), ("0", 0), ("0.000000001", 1)])
def test_dollars_are_read_exactly(text: str, nano: int) -> None:
    assert usd.convert(text, None, None) == nano == nano_usd(text.removeprefix("$"))


@pytest.mark.parametrize(
    "text", ["-1", "many", "nan", "1e999999999", "0.0000000001", "1e20", "0.1000000000000000000000000000001", ""]
)
def test_what_is_no_amount_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        usd.convert(text, None, None)
