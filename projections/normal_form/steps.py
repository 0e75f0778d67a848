"""Spans of one trace to its normal form: its steps, the task, how it closed, and what else is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ledger import canonical, digests
from ledger.episode import Turn
from ledger.families.traces import Exclusion, Trace
from projections.normal_form.facts import facts
from projections.normal_form.messages import Call, Message, Result, inputs, messages, outputs
from projections.normal_form.pairing import RESULTS, Pairing, first, own_call
from projections.normal_form.spans import REAL_TIME, Span
from projections.normal_form.written import read

_CHATS = frozenset({"chat", "text_completion", "generate_content", "completion", "responses"})
_TOOLS = frozenset({"execute_tool", "tool"})
_AGENTS = frozenset({"invoke_agent", "create_agent", "agent", "invoke_workflow"})
_OTHERS = frozenset({"embeddings", "retrieval"})
_CONTENTS = ("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.output.messages", "gen_ai.completion")

_OTHERS_WORDS = frozenset({"user", "system", "developer"})

Clean = Callable[[str], str]


class Formed(msgspec.Struct):
    """A trace, or None; what it is without, and why; and the places of the spans that went into it."""

    trace: Trace | None
    exclusions: list[Exclusion]
    used: set[str]


class Reading(msgspec.Struct):
    """A trace as it is put together."""

    pairing: Pairing = msgspec.field(default_factory=Pairing)
    task: str = ""
    final: str | None = None
    system: str = ""
    asked: int = 0
    silent: list[Span] = msgspec.field(default_factory=list)
    used: set[str] = msgspec.field(default_factory=set)
    closing: str = ""  # the place that the closing words are from

    def chat(self, at: int, span: Span) -> None:
        """Take a model's call: what it was given, and what it did."""
        given = inputs(span)
        made = _unrepeated(given, outputs(span))
        if not _act_in(made) and (own := own_call(span)) is not None:
            made = [*made, Message(role="assistant", calls=[own])]
        self.words(span, given)
        acted = self.pairing.messages(at, span, given, made)
        text = "\n".join(filter(None, [message.text for message in made if message.role != "tool"]))
        if made:  # a call that failed without a word takes back nothing
            self.final, self.closing = (text, span.place) if text and not acted else (None, "")
        if not given and not made:
            self.silent.append(span)

    def agent(self, span: Span) -> None:
        """Take what an agent's own span says of the end; its steps are in other spans."""
        given, made = inputs(span), outputs(span)
        said = self.words(span, given)
        closing = [message.text for message in (*given, *made) if message.role == "assistant" and not message.calls]
        if closing and closing[-1] and not self.closing:
            self.final, self.closing = closing[-1], span.place
        if not said and not closing:
            self.silent.append(span)

    def words(self, span: Span, given: Sequence[Message]) -> bool:
        """Take the task, and what the model was instructed; tell whether there is any."""
        users = [message.text for message in given if message.role == "user" and message.text]
        systems = [message.text for message in given if message.role == "system" and message.text]
        system = "\n".join(_instructions(span) or systems)
        if users:
            self.task = self.task or users[0]
        if system:
            self.system = self.system or system
        if (users and users[0] == self.task) or (system and system == self.system):
            self.used.add(span.place)
        self.asked = max(self.asked, len(users))
        return bool(users or system)


def _act_in(told: Sequence[Message]) -> bool:
    return any([message.calls for message in told])  # noqa: C419 - faster than a generator


def _unrepeated(given: Sequence[Message], made: Sequence[Message]) -> Sequence[Message]:
    """Return what a model did, without what it was given where an agent's whole state is told as its answer."""
    if not _act_in(given):
        return made
    own = [at for at, message in enumerate(made) if message.role not in _OTHERS_WORDS]
    told = [_acts(message) for message in given if message.role not in _OTHERS_WORDS]
    begins = [_acts(made[at]) for at in own[: len(told)]] == told and any(calls for _, calls, _ in told)
    if begins and (len(own) > len(told) or any(message.results for message in made)):
        return made[own[len(told) - 1] + 1 :]
    return made


def _acts(message: Message) -> tuple[str, Sequence[Call], Sequence[Result]]:
    return message.text, message.calls, message.results


def _instructions(span: Span) -> list[str]:
    value = span.attributes.get("gen_ai.system_instructions")
    if value in (None, "", []):
        return []
    wrapped = value if isinstance(value, str) else [{"role": "system", "parts": value}]
    if isinstance(value, str):
        found = messages(value, "system")
        if not any(message.text for message in found) or value.lstrip()[:1] == "[":
            found = messages([{"role": "system", "content": value}], "system")
    else:
        found = messages(wrapped, "system")
    return [message.text for message in found if message.text]


def normal_form(name: str, spans: Iterable[Span], clean: Clean) -> Formed:
    """Return a trace of its spans, whatever their order.

    Its texts are cleaned once more: JSON inside a text may spell out what the text itself doesn't show.
    """
    ordered = in_order(spans)
    if any("exp.source" in span.attributes for span in ordered) and (known := read(ordered, clean)) is not None:
        return Formed(known, [], {span.place for span in ordered})
    roles = _roles(ordered)
    reading = Reading()
    whole = not {"chat", "tool"} & set(roles)
    for at, (role, span) in enumerate(zip(roles, ordered, strict=True)):
        if role == "chat" or (role == "agent" and whole):
            reading.chat(at, span)
        elif role == "agent" and span.attributes.get("gen_ai.operation.name") != "invoke_workflow":
            reading.words(span, inputs(span))
    for at, (role, span) in enumerate(zip(roles, ordered, strict=True)):
        if role == "tool":
            reading.pairing.tool(at, span)
        elif role == "agent" and not whole:
            reading.agent(span)
        elif role == "other":
            reading.silent.append(span)
    reading.pairing.close()
    return _closed(
        name, ordered, [span for role, span in zip(roles, ordered, strict=True) if role == "chat"], (reading, clean)
    )


def _closed(name: str, ordered: Sequence[Span], asked: Sequence[Span], how: tuple[Reading, Clean]) -> Formed:
    reading, clean = how
    turns: list[Turn] = []
    for step, turn in reading.pairing.turns():
        reading.used |= step.places
        turns.append(turn if clean is str else _cleaned(turn, clean))
    if reading.closing:
        reading.used.add(reading.closing)
    exclusions = [msgspec.structs.replace(one, detail=clean(one.detail)) for one in reading.pairing.exclusions]
    exclusions += [
        Exclusion(place=span.place, reason="span-without-content", detail=clean(f"{span.span} {span.name}"))
        for span in reading.silent
    ]
    place = ordered[0].place
    if reading.asked > 1:
        exclusions.append(Exclusion(place=place, reason="later-user-message", detail=name, count=reading.asked - 1))
    if not turns and not (reading.task and reading.final):
        return Formed(None, [*exclusions, Exclusion(place=place, reason="trace-without-steps", detail=name)], set())
    said = facts(ordered, asked, clean)
    trace = Trace(
        name=name,
        source=digests.content_digest(canonical.digest_input("spans", sorted(span.digest for span in ordered))),
        task=clean(reading.task),
        turns=tuple(turns),
        final=None if reading.final is None else clean(reading.final),
        attributes=said.attributes,
        task_id=said.task_id,
        conversation_id=said.conversation_id,
        system=clean(reading.system),
        models=said.models,
        usage=said.usage,
        cost=said.cost,
        duration_us=said.duration_us,
        errors=said.errors,
        annotations=said.annotations,
        reward=said.reward,
    )
    return Formed(trace, exclusions, reading.used | said.places)


def _cleaned(turn: Turn, clean: Clean) -> Turn:
    return msgspec.structs.replace(
        turn,
        arguments=clean(turn.arguments),
        observation=clean(turn.observation),
        said=clean(turn.said),
        call_id=clean(turn.call_id),
    )


def in_order(spans: Iterable[Span]) -> list[Span]:
    """Return spans by time; those without a time by what they say of each other, and all that is equal by content."""
    listed = sorted(spans, key=lambda span: span.order)
    real = [span.start >= REAL_TIME for span in listed]
    if all(real) or (not any(real) and len({span.start for span in listed}) > 1):
        return listed
    known = _known(listed)
    if known is None:
        return listed
    return sorted(listed, key=lambda span: (*known[span.digest], span.order))


def _known(listed: Sequence[Span]) -> dict[str, tuple[int, int]] | None:
    """Return where each span stands by how much its model call was told: None when the calls don't say.

    A tool's run stands after the call that asked for it, and before the one that was told of it.
    """
    told: dict[str, int] = {}
    made: dict[str, int] = {}
    place: dict[str, tuple[int, int]] = {}
    for span in listed:
        if _role(span) != "chat":
            continue
        given = inputs(span)
        if not given:
            return None
        place[span.digest] = (len(given), 0)
        for message in outputs(span):
            made.update((call.id, len(given)) for call in message.calls if call.id)
        told.update((result.id, len(given)) for message in given for result in message.results if result.id not in told)
    for span in listed:
        if span.digest not in place:
            identity = span.attributes.get("gen_ai.tool.call.id")
            if isinstance(identity, str) and identity in made:
                place[span.digest] = (made[identity], 1)
            elif isinstance(identity, str) and identity in told:
                place[span.digest] = (told[identity], -1)
            else:
                place[span.digest] = (0, -1) if _role(span) == "agent" else (1 << 30, 0)
    return place


def _roles(ordered: Sequence[Span]) -> list[str]:
    """Return what each span stands for; a model call that holds another one is an agent's."""
    roles = [_role(span) for span in ordered]
    parents = {span.span: span.parent for span in ordered}
    above: set[str] = set()
    for role, span in zip(roles, ordered, strict=True):
        at = span.parent
        while role == "chat" and at and at != span.span and at not in above:
            above.add(at)
            at = parents.get(at, "")
    return [
        "agent" if role == "chat" and span.span in above else role for role, span in zip(roles, ordered, strict=True)
    ]


def _role(span: Span) -> str:
    operation = span.attributes.get("gen_ai.operation.name")
    kind = operation if isinstance(operation, str) else span.name.split(" ")[0]
    for named, role in ((_CHATS, "chat"), (_TOOLS, "tool"), (_AGENTS, "agent"), (_OTHERS, "other")):
        if kind in named:
            return role
    if first(span.attributes, _CONTENTS) is not None:
        return "chat"
    return "tool" if first(span.attributes, RESULTS[:2]) is not None else "other"
