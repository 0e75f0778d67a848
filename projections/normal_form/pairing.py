"""Pairing: which observation belongs to which action, by call id, else by parent, else by order; the way is recorded.

Model calls are read first: what each was given (earlier actions with their observations) and what it did. Then tools'
runs are given to actions. So it doesn't matter which of them has the earlier time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ledger.episode import Turn
from ledger.families.traces import Exclusion
from projections.normal_form.lines import Unreadable, parsed
from projections.normal_form.messages import Call, Message, Result, said, written
from projections.normal_form.spans import Span

TOOL_NAME_LENGTH = 64
UNNAMED_TOOL = "tool"
_OUTSIDE_NAMES = re.compile(r"[^A-Za-z0-9_-]")
RESULTS = ("gen_ai.tool.call.result", "gen_ai.tool.message", "gen_ai.tool.output", "output.value")
ARGUMENTS = ("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "input.value")


class Step(msgspec.Struct, eq=False):
    """An action that waits for its observation. ``at`` is where it stands among the others."""

    call: Call
    place: str
    at: tuple[int, int]
    round: int
    asked: Span | None  # the model call that made it, when that isn't only known from what a later one was given
    said: str = ""
    observation: str | None = None
    paired: str = ""
    error: bool = False
    ran: bool = False  # a tool's run was given to it
    places: set[str] = msgspec.field(default_factory=set)


class Pairing(msgspec.Struct):
    """A trace's steps as they are put together."""

    steps: list[Step] = msgspec.field(default_factory=list)
    exclusions: list[Exclusion] = msgspec.field(default_factory=list)
    rounds: list[tuple[int, int, Span]] = msgspec.field(default_factory=list)  # where each acting model call stands
    unnamed: list[Step] = msgspec.field(default_factory=list)  # steps without an id
    by_id: defaultdict[str, list[Step]] = msgspec.field(default_factory=lambda: defaultdict(list))
    orphans: dict[tuple[str, str], tuple[Result, Span]] = msgspec.field(default_factory=dict)
    answered: set[int] = msgspec.field(default_factory=set)  # steps whose results were in what is being read

    def messages(self, at: int, span: Span, given: Sequence[Message], made: Sequence[Message]) -> int:
        """Take what a model was given and what it did; return how many actions it took."""
        self.answered.clear()
        self._walk((at, 0), span, given, fresh=False)
        return self._walk((at, 1), span, made, fresh=True)

    def _walk(self, at: tuple[int, int], span: Span, messages: Sequence[Message], *, fresh: bool) -> int:
        """Read messages in their order: results belong to the calls before them, and after the results before those."""
        told: list[Step] = []
        window: list[list[Step]] = []
        waiting: list[Result] = []
        acted = seen = 0
        for message in messages:
            if message.calls and waiting:
                self._observe(waiting, told, window, span)
                window, waiting = [], []
            group: list[Step] = []
            for call in message.calls:
                if fresh:
                    step = self._act(at, span, call)
                    acted += 1
                else:
                    step, seen = self._remembered(at, span, call, seen)
                group.append(step)
            if group:
                group[0].said = group[0].said or message.text
                told += group
                window.append(group)
            waiting += message.results
        self._observe(waiting, told, window, span)
        return acted

    def _act(self, at: tuple[int, int], span: Span, call: Call) -> Step:
        """Return the step of a call that a model makes: a known one when it has an id and was said before."""
        call = _named(call)
        if call.id:
            for step in self._open(call.id):
                if _same(step.call, call):
                    if step.asked is None:
                        step.asked = span
                    step.places.add(span.place)
                    return step
        if not self.rounds or self.rounds[-1][2] is not span:
            self.rounds.append((at[0], len(self.rounds) + 1, span))
        return self._new(Step(call, span.place, at, self.rounds[-1][1], span))

    def _open(self, identity: str) -> list[Step]:
        """Return the steps of an id that weren't answered so far in what is being read: after an answer it is new."""
        return [step for step in self.by_id[identity] if id(step) not in self.answered]

    def _new(self, step: Step) -> Step:
        step.places.add(step.place)
        self.steps.append(step)
        if step.call.id:
            self.by_id[step.call.id].append(step)
        else:
            self.unnamed.append(step)
        return step

    def _remembered(self, at: tuple[int, int], span: Span, call: Call, seen: int) -> tuple[Step, int]:
        """Return the step of a call that a model is told of, and how many steps without an id were told of so far."""
        call = _named(call)
        if call.id:
            for step in self._open(call.id):
                if _same(step.call, call) or not _contradict(step.call.arguments, call.arguments):
                    return step, seen
        else:
            for index in range(seen, len(self.unnamed)):
                if _equal_calls(self.unnamed[index].call, call):
                    return self.unnamed[index], index + 1
        return self._new(Step(call, span.place, at, 0, None)), len(self.unnamed)

    def _observe(self, results: list[Result], told: list[Step], window: list[list[Step]], span: Span) -> None:
        """Give results to the calls that they answer: by id, else by name and order where all of them are there."""
        nameless: list[Result] = []
        answered: set[int] = set()
        for result in results:
            if not result.id:
                nameless.append(result)
            elif (step := self._by_told_id(result, told, answered)) is not None:
                answered.add(id(step))
                self.answered.add(id(step))
                _answer(step, result, span, "")
            else:
                self._lost(result, span)
        if not nameless:
            return
        groups = [[step for step in group if id(step) not in answered and not step.call.id] for group in window]
        if not window:  # what was called isn't told with it
            newest = max((step.round for step in self.steps), default=0)
            waiting = [step for step in self.steps if step.round == newest and step.observation is None]
            groups = [[step for step in waiting if step.asked is not span]]
        for result, step in zip(nameless, _in_order(nameless, groups), strict=True):
            if step is None:
                self._lost(result, span)
            else:
                _answer(step, result, span, "order")

    def _lost(self, result: Result, span: Span) -> None:
        self.orphans.setdefault((result.id, result.text or ""), (result, span))

    def _by_told_id(self, result: Result, told: list[Step], answered: set[int]) -> Step | None:
        """Return the call with a result's id: the newest that was told and isn't answered, else one that is known."""
        named = [step for step in told if step.call.id == result.id]
        unanswered = [step for step in named if id(step) not in answered and step.observation is None]
        if named:
            return (unanswered or named)[-1]
        known = self.by_id.get(result.id, [])
        waiting = [step for step in known if step.observation is None]
        return next(iter([*waiting, *known[-1:]]), None)

    def tool(self, at: int, span: Span) -> bool:
        """Give a tool's run to the action it belongs to; tell whether there is one, or the run says it itself."""
        attributes = span.attributes
        identity = written(attributes.get("gen_ai.tool.call.id"))
        named = tool_name(attributes.get("gen_ai.tool.name")) or name_in(span)
        arguments = first(attributes, ARGUMENTS)
        call = Call(identity, named, "" if arguments is None else written(arguments))
        result = tool_result(span)
        step, way = self._by_id(call, result) if identity else (None, "")
        if step is None:
            step, way = self._by_parent(at, span, call, arguments is not None)
        if step is None:
            if arguments is None:
                detail = f"{span.trace} {span.span}"
                self.exclusions.append(Exclusion(place=span.place, reason="observation-without-action", detail=detail))
                return False
            step = self._new(Step(Call(identity, named or UNNAMED_TOOL, call.arguments), span.place, (at, 0), 0, None))
        elif not step.call.arguments and arguments is not None:
            step.call = Call(step.call.id, step.call.name, call.arguments)
        first_run, step.ran = not step.ran, True
        step.places.add(span.place)
        step.error = step.error or span.error
        step.at = min(step.at, (at, 0))
        if identity and not step.call.id:
            step.call = Call(identity, step.call.name, step.call.arguments)
        if result is not None and (step.observation is None or (first_run and way == "")):
            step.observation, step.paired = result, way  # what a tool says itself comes before what was told of it
        return True

    def _by_id(self, call: Call, result: str | None) -> tuple[Step | None, str]:
        """Return the action with the id of a run; one that ran already only when this is the same run once more."""
        known = self.by_id.get(call.id, [])
        fits = [step for step in known if not call.arguments or not step.call.arguments or _same(step.call, call)]
        for step in fits or known:
            if not step.ran:
                return step, ""
        return next((step for step in fits if result is None or step.observation == result), None), ""

    def _by_parent(self, at: int, span: Span, call: Call, told: bool) -> tuple[Step | None, str]:  # noqa: FBT001 - a fact
        """Return the action without an id that a run belongs to: below the same span first, and of its arguments."""
        waiting = [
            step
            for step in self.steps
            if not step.ran
            and not (step.call.id and call.id)
            and (not call.name or step.call.name in (call.name, UNNAMED_TOOL))
        ]
        if not told and (same := [step for step in waiting if step.observation not in (None, "")]):
            result = tool_result(span)
            if (step := next((step for step in same if step.observation == result), None)) is not None:
                return step, step.paired
        near = [step for step in waiting if step.asked is not None and _near(step.asked, span)]
        if told and call.arguments:
            for some, way in ((near, "parent"), (waiting, "order")):
                for step in some:
                    if step.call.arguments and _equal(step.call.arguments, call.arguments):
                        return step, way
            if isinstance(_value(call.arguments), dict):  # other arguments, so another call
                waiting = [step for step in waiting if not step.call.arguments]
                near = [step for step in near if not step.call.arguments]
        rounds = [(number, asked) for place, number, asked in self.rounds if place <= at]
        below = [number for number, asked in rounds if _near(asked, span)]
        if below:  # an earlier model call's observation is lost, not late
            newest = [step for step in near if step.round == below[-1]]
            return (newest[0], "parent" if len(newest) == 1 else "order") if newest else (None, "")
        newest = [step for step in waiting if rounds and step.round == rounds[-1][0]]
        return (newest[0], "order") if newest else (None, "")

    def close(self) -> None:
        """Give results whose call was found after them to it; the others are exclusions."""
        for result, span in self.orphans.values():
            known = self.by_id.get(result.id, []) if result.id else []
            if known:
                waiting = [step for step in known if step.observation is None]
                _answer((waiting or known)[0], result, span, "")
                continue
            detail = " ".join(filter(None, (result.id, result.text)))
            self.exclusions.append(Exclusion(place=span.place, reason="observation-without-action", detail=detail))

    def turns(self) -> Iterator[tuple[Step, Turn]]:
        """Yield the steps that were observed; the others are exclusions."""
        for step in sorted(self.steps, key=lambda step: step.at):
            if step.observation is None:
                self.exclusions.append(
                    Exclusion(place=step.place, reason="action-without-observation", detail=step.call.arguments)
                )
                continue
            yield (
                step,
                Turn(
                    tool=step.call.name,
                    arguments=step.call.arguments,
                    observation=step.observation,
                    error=step.error,
                    call_id=step.call.id,
                    said=step.said,
                    paired=step.paired,
                ),
            )


def _in_order(results: list[Result], groups: list[list[Step]]) -> list[Step | None]:
    """Return the call of each result without an id: only where as many are there as were called, or names tell."""
    every, last = [step for group in groups for step in group], groups[-1] if groups else []
    for some in (every, last):
        fits = all(_called(step, result) for step, result in zip(some, results, strict=False))
        if len(some) == len(results) and fits:
            return list(some)
    found: list[Step | None] = []
    free = list(last)
    for result in results:
        named = [step for step in free if result.name and _called(step, result)]
        whole = sum(one.name == result.name for one in results) == sum(_called(step, result) for step in last)
        step = named[0] if named and whole else None
        if step is not None:
            free.remove(step)
        found.append(step)
    return found


def _called(step: Step, result: Result) -> bool:
    return not result.name or step.call.name == tool_name(result.name)


def _answer(step: Step, result: Result, span: Span, way: str) -> None:
    """Give a step its observation, unless it has one: the first mention is what the model saw first."""
    if step.observation is None and result.text is not None:
        step.observation, step.paired = result.text, way
        step.error = step.error or result.error
        step.places.add(span.place)


def _near(asked: Span, run: Span) -> bool:
    """Tell whether a tool ran below the model call that asked for it, or both are below the same span."""
    return run.parent != "" and run.parent in (asked.span, asked.parent)


def _same(one: Call, other: Call) -> bool:
    """Tell whether two mentions can be of one call: neither says what the other contradicts."""
    named = one.name == other.name or UNNAMED_TOOL in (one.name, other.name)
    return named and (not one.arguments or not other.arguments or _equal(one.arguments, other.arguments))


def _equal_calls(one: Call, other: Call) -> bool:
    return one.name == other.name and _equal(one.arguments, other.arguments)


def _equal(one: str, other: str) -> bool:
    """Tell whether arguments are equal, however their JSON is written."""
    return one == other or (_value(one) == _value(other))


def _contradict(one: str, other: str) -> bool:
    """Tell whether both are arguments by name: other ones, then, while a text may be a shorter form of the same."""
    return isinstance(_value(one), dict) and isinstance(_value(other), dict)


def _value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return parsed(text.encode())[0]
    except Unreadable:
        return text


def _named(call: Call) -> Call:
    """Return a call with a name that providers accept."""
    name = tool_name(call.name) or UNNAMED_TOOL
    return call if name == call.name else Call(call.id, name, call.arguments)


def tool_name(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a tool's name within what providers accept as one."""
    if type(value) is str and value.isascii() and value.isidentifier():  # most are
        return value[:TOOL_NAME_LENGTH]
    return _OUTSIDE_NAMES.sub("_", value.strip())[:TOOL_NAME_LENGTH] if isinstance(value, str) else ""


def own_call(span: Span) -> Call | None:
    """Return the call that a chat span carries in attributes of its own."""
    name = tool_name(span.attributes.get("gen_ai.tool.name"))
    arguments = first(span.attributes, ARGUMENTS[:2])
    if not name and arguments is None:
        return None
    return Call(written(span.attributes.get("gen_ai.tool.call.id")), name, written(arguments))


def name_in(span: Span) -> str:
    """Return the tool's name in the name of its span."""
    _, _, name = span.name.partition("execute_tool ")
    return tool_name(name)


def tool_result(span: Span) -> str | None:
    """Return what a tool gave back: None when the span doesn't say, which isn't the same as nothing."""
    result = first(span.attributes, RESULTS)
    if result is None and span.events:
        for name, attributes in span.events:
            if name in ("gen_ai.tool.message", "gen_ai.choice"):
                result = attributes.get("content", attributes.get("message"))
    return None if result is None else said(result)


def first(attributes: dict[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first of the attributes that is there."""
    for name in names:
        if (value := attributes.get(name)) is not None:
            return value
    return None
