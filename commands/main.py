"""The command ``exp``: which module holds each command, and how errors leave the process.

Nothing here imports a command before it is asked for: the table below carries the one-line help itself, and a test
holds it equal to what the commands say.
"""

from __future__ import annotations

import codecs
import errno
import importlib
import io
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, NamedTuple

import click

from ledger.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INTERRUPTED = 130
USAGE = 2


class Unexpected(Refusal, name="unexpected", exit_code=10):
    """Something failed that no rule foresaw: a bug, or a machine in trouble."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"{type(error).__name__}: {error}".rstrip(": "),
            where="an unforeseen place; what was recorded before stays recorded",
            remedy="run the same command again; with EXP_DEBUG=1 it shows where this happened",
        )


class OutputUnwritable(Refusal, name="output-unwritable", exit_code=89):
    """What a command says can't be written to its standard output."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the output can't be written: {problem}",
            where="standard output; what was recorded stays recorded",
            remedy="run the same command again with an output that can be written; it goes on from what is recorded",
        )


class TooManyOpenFiles(Refusal, name="too-many-open-files", exit_code=91):
    """The operating system lets this process, or this machine, open no more files."""

    def __init__(self) -> None:
        super().__init__(
            "the operating system allows no more open files",
            where="this process; what was recorded stays recorded",
            remedy="raise the limit (`ulimit -n 1024`) and run the same command again",
        )


class Leaf(NamedTuple):
    """A command: the module under ``commands.cli`` that exposes it as ``command``, and its one-line help."""

    module: str
    summary: str


class Branch(NamedTuple):
    """A group of commands. ``default`` is the one that is meant when the first word names none."""

    summary: str
    entries: Mapping[str, Leaf | Branch]
    default: str = ""


TREE = Branch(
    "Build, judge and route from agent traces, on an immutable ledger.",
    {
        "backup": Leaf("backup", "Copy the journal, verified, while it is in use."),
        "build": Leaf("build", "Import traces and build a grounded world model."),
        "cat": Leaf("cat", "Print the exact bytes of an event or a content."),
        "check": Leaf("check", "Verify the journal; silent when all is well."),
        "checkpoint": Leaf("checkpoint", "Say what the journal holds, to be kept elsewhere."),
        "config": Branch(
            "Configure providers, budget and judge.",
            {
                "budget": Leaf("config_budget", "Read or set the ceiling for one command."),
                "judge": Branch(
                    "Set up and calibrate a judge.",
                    {
                        "calibrate": Leaf("judge_calibrate", "Compare the judge with labels from a person."),
                        "setup": Leaf("judge_setup", "Approve a rubric and the model that judges by it."),
                    },
                ),
                "providers": Leaf("config_providers", "Record connections, models and their roles."),
            },
        ),
        "diff": Leaf("diff", "Compare two runs, builds or calibrations."),
        "doctor": Leaf("doctor", "Say what the root is like and what needs doing."),
        "erase": Leaf("erase", "Remove a content for ever, and keep the proof."),
        "export": Leaf("export", "Carry a run away in one file."),
        "gateway": Branch(
            "Keys, limits and usage of the gateway.",
            {
                "key": Branch(
                    "Issue and take back clients' keys.",
                    {
                        "issue": Leaf("gateway_key_issue", "Make a key for a client."),
                        "list": Leaf("gateway_key_list", "List the clients' keys and limits."),
                        "revoke": Leaf("gateway_key_revoke", "Take a client's keys back."),
                        "rotate": Leaf("gateway_key_rotate", "Give a client another key."),
                    },
                ),
                "limits": Leaf("gateway_limits", "Read or set what clients may take."),
                "usage": Leaf("gateway_usage", "Show what was used, by day, key and model."),
            },
        ),
        "import": Branch(
            "Bring in what was made elsewhere.",
            {
                "bundle": Leaf("import_", "Bring in a bundle that `exp export` wrote."),
                "outcomes": Leaf("import_outcomes", "Bring in a table of what models scored and cost."),
            },
            default="bundle",
        ),
        "ingest": Branch(
            "Import traces of many products.",
            {
                "export": Leaf("ingest_export", "Write recorded traces as OTLP JSON."),
                "files": Leaf("ingest", "Import files of traces without building."),
                "show": Leaf("ingest_show", "Show what a project's imports gave and left out."),
            },
            default="files",
        ),
        "log": Leaf("log", "List events, one a line."),
        "judge": Branch(
            "Label what a judge is compared with.",
            {"label": Leaf("judge_label", "Label recorded traces, one at a time.")},
        ),
        "optimize": Branch(
            "Learn from simulated rollouts.",
            {"router": Leaf("optimize", "Learn which model to ask for which task.")},
        ),
        "prove": Leaf("prove", "Prove that an event is in the journal."),
        "provider": Branch(
            "The embedded provider.",
            {"serve": Leaf("provider", "Serve the embedded provider on loopback.")},
        ),
        "query": Leaf("query", "Ask in SQL about what is recorded."),
        "quickstart": Leaf("quickstart", "Take the whole path on a shipped corpus, offline."),
        "replay": Leaf("replay", "Compute again what was published, and compare."),
        "report": Leaf("report", "Show what an optimization came to, as tables or a page."),
        "run": Leaf("run", "Serve the routed models on loopback."),
        "show": Leaf("show", "Show an event with its causes and effects."),
        "verify-checkpoint": Leaf("verify_checkpoint", "Tell whether the journal only grew since; silent when it did."),
        "why": Leaf("why", "Show what a value comes from."),
    },
)


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is asked for."""

    def __init__(self, name: str, branch: Branch) -> None:
        words = branch.summary
        if branch.default:
            words += f"\n\n`exp {name} X` is `exp {name} {branch.default} X`, unless X is one of the commands."
        super().__init__(name=name, help=words, no_args_is_help=True)
        self.branch = branch

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words for the default command when the first one names none of them."""
        default = self.branch.default
        if default and args and args[0] not in {*self.branch.entries, "--help"}:
            args = [default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in alphabetical order."""
        del ctx
        return sorted(self.branch.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, importing its module now; None when there is none."""
        del ctx
        entry = self.branch.entries.get(cmd_name)
        if entry is None:
            return None
        if isinstance(entry, Branch):
            return LazyGroup(cmd_name, entry)
        command: click.Command = importlib.import_module(f"commands.cli.{entry.module}").command
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, so that showing help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.branch.entries[name].summary) for name in self.list_commands(ctx)])


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    """Print the version of the installed distribution and leave."""
    del param
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version  # noqa: PLC0415 - its import takes as long as click's

    click.echo(f"exp {version('exp-ledger')}")
    ctx.exit()


cli = LazyGroup("exp", TREE)
cli.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Show the version and exit.",
    ),
)


def _first_refusal(error: BaseException) -> Refusal | None:
    """Return the refusal that an exception is or, as task groups raise them, holds."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_first_refusal, error.exceptions)), None)
    return None


def print_refusal(refusal: Refusal, *, as_json: bool) -> None:
    """Print what happened, where, and what to do: three lines, or one JSON object, on stderr."""
    from commands.render.json_text import json_text  # noqa: PLC0415 - only on the way out with an error
    from commands.render.plain import one_line, printable  # noqa: PLC0415 - as above

    if as_json:
        facts = {"name": refusal.name, "what": refusal.what, "where": refusal.where, "remedy": refusal.remedy}
        click.echo(json_text({"error": facts}), err=True)
        return
    click.echo(f"exp: {one_line(refusal.what)}", err=True)
    if refusal.where:
        click.echo(f"  in {one_line(refusal.where)}", err=True)
    for line in printable(refusal.remedy).splitlines():
        click.echo(f"  {line}", err=True)


def _print_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    """Print a wrong command line in the form of every other error."""
    from commands.render.json_text import json_text  # noqa: PLC0415 - only on the way out with an error
    from commands.render.plain import printable  # noqa: PLC0415 - as above

    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "exp"
    what = error.format_message()
    remedy = f"see `{path} --help`"
    if as_json:
        facts = {"name": "usage", "what": what, "where": path, "remedy": remedy}
        click.echo(json_text({"error": facts}), err=True)
    else:
        click.echo(printable(f"exp: {what}\n  in {path}\n  {remedy}"), err=True)
    return USAGE


def _out_of_files(error: BaseException) -> bool:
    """Tell whether an exception is, comes from or holds the refusal to open one more file."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_out_of_files, error.exceptions))
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        return True
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error):
        return True
    before = error.__cause__ or error.__context__
    return before is not None and _out_of_files(before)


def _from_output(error: BaseException) -> bool:
    """Tell whether an OSError was raised while click wrote."""
    frames = traceback.walk_tb(error.__traceback__)
    return isinstance(error, OSError) and any(frame.f_code is click.echo.__code__ for frame, _ in frames)


def _named(error: Exception) -> Refusal | None:
    """Return the refusal that an exception amounts to, or None for what nobody foresaw."""
    if _from_output(error):
        _drop_output()
        return OutputUnwritable(getattr(error, "strerror", None) or str(error))
    if (refusal := _first_refusal(error)) is not None:
        return refusal
    return TooManyOpenFiles() if _out_of_files(error) else None


def _no_text(arguments: Sequence[str]) -> str | None:
    """Say which argument holds bytes that are no text; None when all are text. Names of files need not be."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            return f"{argument!a} isn't UTF-8, and no name of anything here"
    return None


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return what an encoding has no bytes for as JSON and Python write it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _drop_output() -> None:
    """Point stdout nowhere: whoever read it has left, and flushing at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; no traceback leaves unless EXP_DEBUG is set."""
    as_json = "--json" in arguments
    try:
        outcome = cli.main(args=list(arguments), prog_name="exp", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        return _print_usage_error(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        click.echo("exp: interrupted; what was recorded stays recorded", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and (wrong := _no_text(arguments)) is not None:
            return _print_usage_error(click.UsageError(wrong), as_json=as_json)
        refusal = _named(error)
        if refusal is None:
            if os.environ.get("EXP_DEBUG"):
                raise
            refusal = Unexpected(error)
        print_refusal(refusal, as_json=as_json)
        return refusal.exit_code
    return outcome if isinstance(outcome, int) and not isinstance(outcome, bool) else 0


def main() -> None:
    """Run the command line of this process."""
    # Products here are small: a second BLAS thread would only spin, at four times the CPU time of a replay.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    codecs.register_error("exp-escaped", _escaped)
    if sys.stdin is None:  # closed: no other file may take its place
        os.open(os.devnull, os.O_RDONLY)
    if sys.stderr is None and sys.stdout is not None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="exp-escaped")
    arguments = sys.argv[1:]
    if sys.stdout is None:  # closed: the next file to be opened would take its place
        refusal = OutputUnwritable("it is closed")
        print_refusal(refusal, as_json="--json" in arguments)
        sys.exit(refusal.exit_code)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
