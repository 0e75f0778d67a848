"""Candidates of the stand-in: rules that act on a task's text and the offered functions, as well as a model may.

A model that is able attempts the task, reads what came back, tries once more after a failure and closes by saying what
it saw. One that isn't looks around once and closes without having done anything.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from commands.embedded import cast, schemas, shell
from commands.embedded.conversation import Conversation, Offered, abstained
from commands.embedded.names import PATH, URL, quoted_in

_COMMAND_NAMES = ("command", "cmd", "script", "bash", "shell", "code", "input", "keystrokes")
_SINGLE_WORD = re.compile(r"\bsingle word[ :]+['\"`]?([\w\-]+)", re.IGNORECASE)
_WORD = re.compile(r"[a-z]{3,}")
_NUMBER = re.compile(r"-?\b\d{1,9}\b")
_ERROR = re.compile(r"\b(?:error|not found|no such file|denied|failed|traceback)\b", re.IGNORECASE)
_SHOWN = 200


class Said(NamedTuple):
    """What is answered before it is put in a dialect: text, and calls as (name, arguments as JSON text)."""

    text: str | None
    calls: tuple[tuple[str, str], ...] = ()


def answer(told: Conversation, turns: int | None = None, *, ends: str = "final") -> Said:
    """Return the next turn. With ``turns`` an episode takes exactly as many, the last one a closing message.

    ``ends="done"`` makes the last turn a call too, for a world model that says when an episode is done.
    """
    able = cast.able(told.model, told.user, told.seed)
    if told.as_json:
        return Said(_structured(told))
    calls = _calls(told, able=able, turns=turns, ends=ends)
    return Said(None, calls) if calls else Said(_closing(told, able=able))


def _calls(told: Conversation, *, able: bool, turns: int | None, ends: str) -> tuple[tuple[str, str], ...]:
    """Return the calls of the next turn; none when it is time to close."""
    if not told.tools or told.choice == "none":
        return ()
    tool = _chosen(told)
    plan = shell.steps(told.user, cast.TOPICS[cast.topic(told.user)]) if able else shell.wandering(told.user)
    made = len(told.exchanges)
    forced = told.choice != "auto"
    if turns is not None:
        wanted = turns if ends == "done" else turns - 1
        # Marked, so that no two models write the same: a measured run then shares no question between its candidates.
        command = f"{plan[made % len(plan)]} # {told.model}"
        return (_call(tool, told.user, command),) if made < wanted or forced else ()
    if made < len(plan):
        at_once = plan[made:] if told.parallel and _independent(plan) else plan[made : made + 1]
        return tuple(_call(tool, told.user, command) for command in at_once)
    if able and made == len(plan) and _failed(told):
        return (_call(tool, told.user, shell.again(plan[-1])),)
    return (_call(tool, told.user, plan[-1]),) if forced and not made else ()


def _independent(plan: list[str]) -> bool:
    """Tell whether no step waits for another: several addresses, each fetched on its own."""
    return len(plan) > 1 and all(command.startswith("curl ") for command in plan)


def _failed(told: Conversation) -> bool:
    seen = told.exchanges[-1].output or ""
    return not abstained(seen) and _ERROR.search(seen[:2000]) is not None


def _chosen(told: Conversation) -> Offered:
    """Return the function that must be called or, of those offered, the one whose words the task shares most."""
    if told.choice is not None and told.choice.startswith("="):
        return next((tool for tool in told.tools if tool.name == told.choice[1:]), told.tools[0])
    if len(told.tools) == 1:
        return told.tools[0]
    words = set(_WORD.findall(told.user.lower()))

    def shared(tool: Offered) -> int:
        known = set(_WORD.findall(f"{tool.name} {tool.description}".lower().replace("_", " ")))
        return 2 * len(words & known) + _takes_command(tool)

    return max(told.tools, key=shared)


def _takes_command(tool: Offered) -> bool:
    properties = tool.parameters.get("properties")
    return isinstance(properties, dict) and any(name in properties for name in _COMMAND_NAMES)


def _call(tool: Offered, task: str, command: str) -> tuple[str, str]:
    """Return a call with arguments that fit the function's schema, filled from the task's text."""
    return tool.name, msgspec.json.encode(_filled(tool.parameters, task, command)).decode()


def _filled(parameters: dict[str, Any], task: str, command: str) -> dict[str, Any]:
    properties = parameters.get("properties")
    if not isinstance(properties, dict) or not properties:
        return {}
    required = parameters.get("required")
    required = required if isinstance(required, list) else []
    name = next((name for name in _COMMAND_NAMES if name in properties), None)
    wanted = [key for key in properties if key in required or key == name] or list(properties)[:1]
    return {key: _value(key, properties[key], task, command, is_command=key == name) for key in wanted}


def _value(name: str, schema: Any, task: str, command: str, *, is_command: bool) -> Any:  # noqa: ANN401 - JSON
    """Return an argument's value: what in the task has its name's kind, else the least that its schema allows."""
    schema = schema if isinstance(schema, dict) else {}
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return next(
            (value for value in choices if isinstance(value, str) and value.lower() in task.lower()), choices[0]
        )
    kind = schema.get("type")
    kind = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    if kind in {"integer", "number"}:
        number = _NUMBER.search(task)
        return int(number.group()) if number else schemas.instance(schema)
    if kind not in {"string", None}:
        return schemas.instance(schema)
    return command if is_command else _words_for(name.lower(), task)


def _words_for(name: str, task: str) -> str:
    """Return the text in a task that an argument of this name would hold."""
    kinds = ((("url", "uri", "link"), URL), (("path", "file", "dir"), PATH))
    for names, pattern in kinds:
        found = pattern.search(task) if any(part in name for part in names) else None
        if found:
            return found.group()
    return next(iter(quoted_in(task)), task[:_SHOWN])


def _closing(told: Conversation, *, able: bool) -> str:
    """Return the closing message."""
    word = _SINGLE_WORD.search(told.user)
    if word and not told.exchanges:
        return word.group(1)
    if not told.exchanges:
        return _remark(told, able=able)
    if not able:
        return "I looked around but didn't find out how to do this."
    seen = (told.exchanges[-1].output or "").strip()
    if abstained(seen):
        return "I ran the commands for this task, but what they did is unknown."
    if not seen:
        return "Done. The last command printed nothing, as a command that succeeds may."
    return f"{'It failed' if _failed(told) else 'Done'}. The last command printed: {seen[:_SHOWN]}"


def _remark(told: Conversation, *, able: bool) -> str:
    """Return what can be said to a request that offers nothing to act with."""
    topic = cast.TOPICS[cast.topic(told.user)]
    if not able:
        return "I am a stand-in and have no good answer to this."
    steps = "\n".join(shell.steps(told.user, topic))
    return f"I am a stand-in without a model behind it. By its words this is about {topic}; I would run:\n{steps}"


def _structured(told: Conversation) -> str:
    """Return the least JSON that a schema other than those of world model and judge allows."""
    value = schemas.instance(told.schema) if told.schema else {"answer": _closing(told, able=False)}
    return msgspec.json.encode(value).decode()
