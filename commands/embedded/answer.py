"""The stand-in's answers: a pure function from a request to a status and a body.

The same request gets the same answer in every process. Each body says in ``system_fingerprint`` that a stand-in wrote
it, and ``created`` is 0 in all of them, since a pure function knows no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from blake3 import blake3

from commands.embedded import (
    candidate,
    cast,
    conversation,
    embedder,
    judge,
    strict_chat,
    strict_responses,
    tokens,
    world_model,
)
from commands.embedded.candidate import Said
from commands.embedded.conversation import Conversation
from commands.embedded.envelope import Rejected, error_body
from commands.embedded.parameters import is_classic, reasons

CHAT, RESPONSES, EMBEDDINGS, MODELS = "chat.completions", "responses", "embeddings", "models"
_EFFORT_TOKENS = {"none": 0, "minimal": 16, "low": 32, "medium": 64, "high": 128, "xhigh": 256}
_CONTEXT, _CLASSIC_CONTEXT = 1_050_000, 128_000
_CACHE_STEP, _LEAST_CACHED = 128, 1_024
_encoder = msgspec.json.Encoder(order="sorted")


class Knobs(msgspec.Struct, frozen=True):
    """How the stand-in is set up: names it reports instead of those asked for, and the length of episodes."""

    serves: Mapping[str, str] = {}
    turns: int | None = None
    ends: str = "final"


PLAIN = Knobs()


class Written(msgspec.Struct):
    """An answer before it is put in a dialect."""

    said: Said
    cut: bool
    digest: str
    served: str
    prompt_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    output_tokens: int


def answer(api: str, request: Any, knobs: Knobs = PLAIN) -> tuple[int, dict[str, Any]]:  # noqa: ANN401 - any JSON
    """Return status and body for a request to ``chat.completions``, ``responses``, ``embeddings`` or ``models``."""
    made = _MADE.get(api)
    if made is None:
        return 404, error_body(f"Invalid URL ({api})")
    if not isinstance(request, dict):
        return 400, error_body("We expected the JSON body of your request to be an object.")
    try:
        body = made(request, knobs)
    except Rejected as refused:
        return refused.status, refused.body
    body["system_fingerprint"] = cast.FINGERPRINT
    return 200, body


def _chat(request: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    strict_chat.refuse(request)
    told = conversation.from_chat(request)
    stop = request.get("stop")
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    wrote = _write(request, told, knobs, limit=limit, effort=request.get("reasoning_effort"))
    if stop is not None and wrote.said.text is not None:
        _stop_at(wrote, [stop] if isinstance(stop, str) else stop)
    copies = request.get("n") or 1
    spent = wrote.output_tokens * copies
    return {
        "id": f"chatcmpl-{wrote.digest}",
        "object": "chat.completion",
        "created": 0,
        "model": wrote.served,
        "choices": [_choice(wrote, index) for index in range(copies)],
        "usage": {
            "prompt_tokens": wrote.prompt_tokens,
            "completion_tokens": spent,
            "total_tokens": wrote.prompt_tokens + spent,
            "prompt_tokens_details": {"cached_tokens": wrote.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": wrote.reasoning_tokens * copies,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
    }


def _choice(wrote: Written, index: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": wrote.said.text, "refusal": None, "annotations": []}
    if wrote.said.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{wrote.digest}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for at, (name, arguments) in enumerate(wrote.said.calls)
        ]
    reason = "length" if wrote.cut else "tool_calls" if wrote.said.calls else "stop"
    return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}


def _responses(request: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    strict_responses.refuse(request)
    told = conversation.from_responses(request)
    reasoning = request.get("reasoning") or {}
    limit, effort = request.get("max_output_tokens"), reasoning.get("effort")
    wrote = _write(request, told, knobs, limit=limit, effort=effort)
    return {
        "id": f"resp_{wrote.digest}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if wrote.cut else "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if wrote.cut else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": limit,
        "model": wrote.served,
        "output": _output(wrote),
        "parallel_tool_calls": told.parallel,
        "previous_response_id": None,
        "reasoning": {"effort": effort, "summary": None},
        "service_tier": "default",
        "store": request.get("store") is not False,
        "temperature": request.get("temperature") or 1.0,
        "text": request.get("text") or {"format": {"type": "text"}},
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "top_p": request.get("top_p") or 1.0,
        "truncation": request.get("truncation") or "disabled",
        "usage": {
            "input_tokens": wrote.prompt_tokens,
            "input_tokens_details": {"cached_tokens": wrote.cached_tokens},
            "output_tokens": wrote.output_tokens,
            "output_tokens_details": {"reasoning_tokens": wrote.reasoning_tokens},
            "total_tokens": wrote.prompt_tokens + wrote.output_tokens,
        },
        "user": request.get("user"),
        "metadata": request.get("metadata") or {},
    }


def _output(wrote: Written) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    status = "incomplete" if wrote.cut else "completed"
    if wrote.reasoning_tokens:
        items.append({"id": f"rs_{wrote.digest}", "type": "reasoning", "summary": []})
    if wrote.said.text is not None:
        part = {"type": "output_text", "text": wrote.said.text, "annotations": [], "logprobs": []}
        items.append(
            {"id": f"msg_{wrote.digest}", "type": "message", "status": status, "role": "assistant", "content": [part]}
        )
    for at, (name, arguments) in enumerate(wrote.said.calls):
        items.append(
            {
                "id": f"fc_{wrote.digest}_{at}",
                "type": "function_call",
                "status": status,
                "call_id": f"call_{wrote.digest}_{at}",
                "name": name,
                "arguments": arguments,
            }
        )
    return items


def _write(
    request: dict[str, Any], told: Conversation, knobs: Knobs, *, limit: int | None, effort: str | None
) -> Written:
    """Say something in the role that is asked for, within the limit on tokens."""
    _refuse_too_long(told)
    said = _say(told, knobs)
    reasoning = _EFFORT_TOKENS[effort or "medium"] if effort is not None or reasons(told.model) else 0
    spoken = _spoken(said)
    cut = limit is not None and reasoning + spoken > limit
    if cut and limit is not None:
        reasoning = min(reasoning, limit)
        said = _shortened(said, limit - reasoning)
        spoken = min(limit - reasoning, spoken)
    return Written(
        said=said,
        cut=cut,
        digest=blake3(_encoder.encode(request)).hexdigest(12),
        served=knobs.serves.get(told.model, told.model),
        prompt_tokens=told.prompt_tokens,
        cached_tokens=_cached(request, told),
        reasoning_tokens=reasoning,
        output_tokens=reasoning + spoken,
    )


def _say(told: Conversation, knobs: Knobs) -> Said:
    role = told.role
    if role == "world-model":
        turns = knobs.turns if knobs.ends == "done" else None
        never_done = knobs.turns is not None and turns is None
        return Said(world_model.encoded(world_model.reply(told.user, turns, never_done=never_done)))
    if role == "judge":
        return Said(judge.reply(told.user))
    return candidate.answer(told, knobs.turns, ends=knobs.ends)


def _spoken(said: Said) -> int:
    calls = sum(
        tokens.count(name) + tokens.count(arguments) + tokens.MESSAGE_OVERHEAD for name, arguments in said.calls
    )
    return calls + tokens.count(said.text or "")


def _shortened(said: Said, limit: int) -> Said:
    if not said.calls:
        return Said(tokens.cut(said.text or "", limit))
    (name, arguments), *_ = said.calls
    left = limit - tokens.count(name) - tokens.MESSAGE_OVERHEAD
    return Said(None, ((name, tokens.cut(arguments, left)),)) if left > 0 else Said("")


def _stop_at(wrote: Written, sequences: list[str]) -> None:
    text = wrote.said.text or ""
    found = [at for at in (text.find(sequence) for sequence in sequences if sequence) if at >= 0]
    if found:
        wrote.said = Said(text[: min(found)])
        wrote.output_tokens = wrote.reasoning_tokens + _spoken(wrote.said)
        wrote.cut = False


def _cached(request: dict[str, Any], told: Conversation) -> int:
    """Return tokens that a prompt cache would have held: the instructions, when a cache key is given."""
    if request.get("prompt_cache_key") is None or told.prompt_tokens < _LEAST_CACHED:
        return 0
    return tokens.count(told.system) // _CACHE_STEP * _CACHE_STEP


def _refuse_too_long(told: Conversation) -> None:
    most = _CLASSIC_CONTEXT if is_classic(told.model) else _CONTEXT
    if told.prompt_tokens > most:
        raise Rejected(
            f"This model's maximum context length is {most} tokens. However, your messages resulted in "
            f"{told.prompt_tokens} tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        )


def _embeddings(request: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    model = request.get("model")
    return embedder.answer(request, knobs.serves.get(model, model) if isinstance(model, str) else "")


def _models(request: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    """Return the list of models or, where the request names one, that one: any name is answered to."""
    named = request.get("model")
    if named:
        return _model(named)
    names = sorted({*cast.MODELS, *knobs.serves, *knobs.serves.values()})
    return {"object": "list", "data": [_model(name) for name in names]}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": cast.FINGERPRINT}


_MADE: dict[str, Callable[[dict[str, Any], Knobs], dict[str, Any]]] = {
    CHAT: _chat,
    RESPONSES: _responses,
    EMBEDDINGS: _embeddings,
    MODELS: _models,
}
