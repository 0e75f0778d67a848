"""Embedding: texts become vectors of small integers, asked for in batches and recorded one by one.

A vector is scaled so that its largest component is 127 in size and rounded to int8. Only multiplication, division and
rounding of single numbers are involved, so the same reply gives the same bytes on every machine; vectors have different
lengths afterwards, so compare them by cosine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from commands.perform.calling import Call, Job, Settlement
from ledger import canonical, digests, estimates, questions
from ledger.event import Blobs, Step
from ledger.families import calls
from ledger.families.calls import CallAnswered, TextEmbedded, Vector
from ledger.families.providers import Endpoint
from ledger.prompt import Question, Usage
from ledger.replies import UnreadableReply, read_vectors, served_as_pinned

if TYPE_CHECKING:
    from commands.perform.asking import Asking
    from commands.perform.outcome import Answered

MOST_INPUTS = 2_048
MOST_BYTES = 300_000  # a byte counts as a token
GREATEST = 127.0
ATTEMPT = 0
INT8 = "application/x-int8"


async def embed(asking: Asking, endpoint: Endpoint, texts: Sequence[str]) -> list[bytes]:
    """Return each text's vector, from the journal where it is recorded."""
    redact = asking.perform.redactor.text
    wanted: dict[str, str] = {}
    order: list[str] = []
    for text in texts:
        shown, _ = redact(text)
        digest = questions.embedding_question(endpoint, shown).digest
        wanted[digest] = shown
        order.append(digest)
    vectors = _recorded(asking, wanted)
    missing = [(digest, text) for digest, text in wanted.items() if digest not in vectors]
    if missing:
        batches = [_Batch(asking, endpoint, batch) for batch in _batches(missing)]
        await _bring(batches)
        for batch in batches:
            vectors.update(batch.vectors)
        vectors.update(_recorded(asking, [digest for digest, _ in missing if digest not in vectors]))
    return [vectors[digest] for digest in order]


async def _bring(batches: Sequence[_Batch]) -> None:
    """Ask for all batches together; what one of them is refused for is raised by itself."""
    if len(batches) == 1:
        await batches[0].bring()
        return
    try:
        async with asyncio.TaskGroup() as group:
            for batch in batches:
                group.create_task(batch.bring())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


def quantised(packed: bytes) -> bytes | None:
    """Return int8 components of a vector of little-endian float32; None when it has no direction."""
    vector = np.frombuffer(packed, dtype="<f4").astype(np.float64)
    largest = float(np.max(np.abs(vector))) if vector.size else 0.0
    if not 0.0 < largest < np.inf:
        return None
    return np.rint(vector * GREATEST / largest).astype(np.int8).tobytes()


def _recorded(asking: Asking, digests_: Sequence[str] | dict[str, str]) -> dict[str, bytes]:
    keys = [f"{digest}:{ATTEMPT}" for digest in digests_]
    found = asking.journal.find_many(TextEmbedded, keys)
    vectors = {}
    for record in found.values():
        event = record.event
        if isinstance(event, TextEmbedded):
            vectors[event.embedded.question] = asking.journal.blob(event.embedded.vector.blob)
    return vectors


def _batches(texts: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Cut the texts, in order, into batches within the service's limits."""
    batch: list[tuple[str, str]] = []
    size = 0
    for digest, text in texts:
        length = len(text.encode())
        if batch and (len(batch) == MOST_INPUTS or size + length > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((digest, text))
        size += length
    if batch:
        yield batch


class _Batch:
    """One call for many texts. What is recorded of the question is its manifest: the digests of the texts' own."""

    def __init__(self, asking: Asking, endpoint: Endpoint, texts: Sequence[tuple[str, str]]) -> None:
        self._asking = asking
        self._endpoint = endpoint
        self._digests = [digest for digest, _ in texts]
        request = questions.embedding_request(endpoint, [text for _, text in texts])
        where = {"api": "embeddings", "base_url": questions.base_url(endpoint)}
        self._body = canonical.encode({**where, "request": request, "sample": 0})
        self._manifest = canonical.encode({**where, "model": request["model"], "texts": self._digests})
        self.vectors: dict[str, bytes] = {}

    async def bring(self) -> None:
        """Ask, and have the vectors recorded."""
        perform = self._asking.perform
        digest = digests.content_digest(self._manifest)
        if not perform.asks:  # raises, naming what was recorded of the nearest question: its manifest
            await perform(self._endpoint, Question(body=self._manifest, digest=digest))
        question = Question(body=self._body, digest=digest)
        blobs = Blobs()
        job = Job(
            endpoint=self._endpoint,
            question=question,
            attempt=ATTEMPT,
            worst_case=estimates.worst_case(self._endpoint, len(self._body), 0),
            asked=blobs.put(self._manifest, "application/json"),
            blobs=blobs,
            read=self._read,
        )
        await self._asking.fly(job)

    def _read(self, call: Call, outcome: Answered) -> Settlement:
        from commands.perform.asking import mismatch, unusable  # noqa: PLC0415 - asking loads this module when needed

        able = self._endpoint.capabilities
        try:
            packed, served, usage = read_vectors(outcome.body, len(self._digests))
        except UnreadableReply as unreadable:
            return unusable(call, unreadable.reason, estimates.actual_cost(able, Usage()))
        cost = estimates.actual_cost(able, usage)
        if not served_as_pinned(self._endpoint, served):
            return mismatch(self._endpoint, call, served, cost)
        vectors = [quantised(one) for one in packed]
        if None in vectors or len({len(one) for one in packed}) != 1:
            return unusable(call, "vectors without a direction, or of different lengths", cost)
        blobs = Blobs()
        self.vectors = {digest: one for digest, one in zip(self._digests, vectors, strict=True) if one is not None}
        recorded = tuple(
            Vector(question=digest, vector=blobs.put(one, INT8), dimensions=len(one))
            for digest, one in self.vectors.items()
        )
        end = CallAnswered(
            question=call.question,
            attempt=call.attempt,
            dispatch=call.dispatch,
            run=call.run,
            reply=None,
            usage=usage,
            cost=cost,
            served_model=served,
            latency_us=outcome.latency_us,
        )
        command = calls.RecordVectors(vectors=recorded, attempt=ATTEMPT, call=call.question)
        return Settlement(end, (Step(calls.VECTORS, command),), blobs)
