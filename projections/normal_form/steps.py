"""Spans of one trace to its normal form: which action each observation belongs to, the task, and how it closed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ledger import canonical, digests
from ledger.episode import Turn
from ledger.families.traces import Exclusion, Trace
from projections.normal_form.messages import Call, Message, Result, inputs, opened, outputs, written
from projections.normal_form.spans import Span

TOOL_NAME_LENGTH = 64
UNNAMED_TOOL = "tool"
MOST_ATTRIBUTES = 32
ATTRIBUTE_LENGTH = 80
_OUTSIDE_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_RESULTS = ("gen_ai.tool.call.result", "gen_ai.tool.message", "gen_ai.tool.output", "output.value")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "input.value")
_CHATS = frozenset({"chat", "text_completion", "generate_content"})
_CONTENT = re.compile(r"gen_ai\.(?!request\.model$|provider\.name$|system$|agent\.name$)|input\.|output\.|error\.")


class _Step(msgspec.Struct):
    """An action that waits for its observation."""

    call: Call
    place: str
    round: int
    observation: str | None = None
    error: bool = False


class Reading(msgspec.Struct):
    """A trace's steps as they are put together."""

    steps: list[_Step] = msgspec.field(default_factory=list)
    exclusions: list[Exclusion] = msgspec.field(default_factory=list)
    task: str = ""
    final: str | None = None
    asked: int = 0
    silent: int = 0
    round: int = 0  # how many model calls acted so far

    def chat(self, span: Span) -> None:
        """Take a model's call: what it was given, and what it did."""
        given, said = inputs(span), outputs(span)
        self._given(given, span.place)
        calls = [call for message in said for call in message.calls]
        own = _own_call(span)
        if own is not None and not calls:
            calls = [own]
        self.round += bool(calls)
        for call in calls:
            self._act(call, span.place)
        text = "\n".join(filter(None, (message.text for message in said)))
        self.final = text if text and not calls else None
        if not given and not said and own is None:
            self.silent += 1

    def agent(self, span: Span) -> None:
        """Take what an agent's own span says of the task; its steps are in other spans."""
        users = [message.text for message in inputs(span) if message.role == "user" and message.text]
        if not users:
            self.silent += 1
        elif not self.task:
            self.task = users[0]

    def tool(self, span: Span) -> None:
        """Take a tool's run: give the observation to the action it belongs to."""
        name = tool_name(span.attributes.get("gen_ai.tool.name")) or _name_in(span)
        identity = written(span.attributes.get("gen_ai.tool.call.id"))
        step = self._waiting(identity, name)
        arguments = _first(span.attributes, _ARGUMENTS)
        if step is None:
            if arguments is None:
                self.exclusions.append(
                    Exclusion(place=span.place, reason="observation-without-action", detail=f"{span.trace} {span.span}")
                )
                return
            step = _Step(Call(identity, name or UNNAMED_TOOL, written(arguments)), span.place, self.round)
            self.steps.append(step)
        elif not step.call.arguments and arguments is not None:
            step.call = Call(step.call.id, step.call.name, written(arguments))
        result = _result(span)
        step.observation = result
        step.error = span.error

    def _given(self, messages: Sequence[Message], place: str) -> None:
        users = [message.text for message in messages if message.role == "user" and message.text]
        if users and not self.task:
            self.task = users[0]
        self.asked = max(self.asked, len(users))
        known = {step.call.id for step in self.steps if step.call.id}
        first = not self.steps
        for message in messages:
            for call in message.calls:
                if (call.id and call.id not in known) or (first and not call.id):
                    self._act(call, place)
            for result in message.results:
                self._observe(result)

    def _act(self, call: Call, place: str) -> None:
        if call.id and any(step.call.id == call.id for step in self.steps):
            return
        named = Call(call.id, tool_name(call.name) or UNNAMED_TOOL, call.arguments)
        self.steps.append(_Step(named, place, self.round))

    def _observe(self, result: Result) -> None:
        for step in self.steps:
            if step.observation is None and (not result.id or not step.call.id or step.call.id == result.id):
                step.observation = result.text
                return

    def _waiting(self, identity: str, name: str) -> _Step | None:
        """Return the first action without an observation that this run can belong to, by id, else by name.

        By name it can only belong to the newest model call: an earlier one's observation is lost, not late.
        """
        waiting = [step for step in self.steps if step.observation is None]
        if identity:
            for step in waiting:
                if step.call.id == identity:
                    return step
            waiting = [step for step in waiting if not step.call.id]
        newest = (step for step in waiting if step.round == self.round)
        return next((step for step in newest if not name or step.call.name == name), None)

    def turns(self) -> Iterator[Turn]:
        """Yield the steps that were observed; the others are exclusions."""
        for step in self.steps:
            if step.observation is None:
                self.exclusions.append(
                    Exclusion(place=step.place, reason="action-without-observation", detail=step.call.arguments)
                )
                continue
            yield Turn(
                tool=step.call.name, arguments=step.call.arguments, observation=step.observation, error=step.error
            )


def normal_form(name: str, spans: Iterable[Span], clean: Callable[[str], str]) -> tuple[Trace | None, list[Exclusion]]:
    """Return a trace of its spans, whatever their order, or None; and what it is without, and why.

    Its texts are cleaned once more: JSON inside a text may spell out what the text itself doesn't show.
    """
    ordered = sorted(spans, key=lambda span: span.order)
    roles = [_role(span) for span in ordered]
    if not {"chat", "tool"} & set(roles):
        roles = ["chat" if role == "agent" else role for role in roles]
    reading = Reading()
    for role, span in zip(roles, ordered, strict=True):
        if role == "chat":
            reading.chat(span)
        elif role == "tool":
            reading.tool(span)
        elif role == "agent":
            reading.agent(span)
        else:
            reading.silent += 1
    turns = tuple(
        Turn(tool=turn.tool, arguments=clean(turn.arguments), observation=clean(turn.observation), error=turn.error)
        for turn in reading.turns()
    )
    exclusions = [msgspec.structs.replace(one, detail=clean(one.detail)) for one in reading.exclusions]
    place = ordered[0].place
    if reading.silent:
        exclusions.append(Exclusion(place=place, reason="span-without-content", detail=name, count=reading.silent))
    if reading.asked > 1:
        exclusions.append(Exclusion(place=place, reason="later-user-message", detail=name, count=reading.asked - 1))
    if not turns and not (reading.task and reading.final):
        return None, [*exclusions, Exclusion(place=place, reason="trace-without-steps", detail=name)]
    source = digests.content_digest(canonical.digest_input("spans", sorted(span.digest for span in ordered)))
    return (
        Trace(
            name=name,
            source=source,
            task=clean(reading.task),
            turns=turns,
            final=None if reading.final is None else clean(reading.final),
            attributes=tuple((clean(attribute), clean(value)) for attribute, value in declared(ordered)),
        ),
        exclusions,
    )


def declared(spans: Iterable[Span]) -> tuple[tuple[str, str], ...]:
    """Return the short texts that spans declare about their trace, also inside JSON objects, where they agree."""
    values: dict[str, set[str]] = {}
    seen: set[int] = set()
    for span in spans:
        sources = [span.attributes]
        if id(span.resource) not in seen:
            seen.add(id(span.resource))
            sources.append(span.resource)
        for attributes in sources:
            for name, value in _texts(attributes):
                values.setdefault(name, set()).add(value)
    agreed = sorted((name, *texts) for name, texts in values.items() if len(texts) == 1)
    return tuple((name, text) for name, text in agreed[:MOST_ATTRIBUTES])


def _texts(attributes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in attributes.items():
        if _CONTENT.match(name):
            continue
        inner = opened(value)
        if isinstance(inner, dict):
            yield from ((f"{name}.{key}", text) for key, text in inner.items() if _short(text))
        elif _short(value):
            yield name, value


def _short(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(value, str) and 0 < len(value) <= ATTRIBUTE_LENGTH


def tool_name(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a tool's name within what providers accept as one."""
    return _OUTSIDE_NAMES.sub("_", value.strip())[:TOOL_NAME_LENGTH] if isinstance(value, str) else ""


def _role(span: Span) -> str:
    operation = span.attributes.get("gen_ai.operation.name")
    kind = operation if isinstance(operation, str) else span.name.split(" ")[0]
    if kind in _CHATS:
        return "chat"
    if kind in ("execute_tool", "tool"):
        return "tool"
    if kind in ("invoke_agent", "create_agent", "agent"):
        return "agent"
    if any(name in span.attributes for name in ("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.output.messages")):
        return "chat"
    return "tool" if _first(span.attributes, _RESULTS[:2]) is not None else "other"


def _own_call(span: Span) -> Call | None:
    """Return the call that a chat span carries in attributes of its own."""
    name = tool_name(span.attributes.get("gen_ai.tool.name"))
    arguments = _first(span.attributes, _ARGUMENTS[:2])
    if not name and arguments is None:
        return None
    return Call(written(span.attributes.get("gen_ai.tool.call.id")), name, written(arguments))


def _name_in(span: Span) -> str:
    _, _, name = span.name.partition("execute_tool ")
    return tool_name(name)


def _result(span: Span) -> str | None:
    """Return what a tool gave back: None when the span doesn't say, which isn't the same as nothing."""
    result = _first(span.attributes, _RESULTS)
    if result is None:
        for name, attributes in span.events:
            if name in ("gen_ai.tool.message", "gen_ai.choice"):
                result = attributes.get("content", attributes.get("message"))
    return None if result is None else written(result)


def _first(attributes: dict[str, Any], names: Iterable[str]) -> Any:  # noqa: ANN401 - any JSON value
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)
