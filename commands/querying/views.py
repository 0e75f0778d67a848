"""Views: what can be asked in SQL. Each is a reading of the one table ``events``, so nothing else has to be kept fresh.

Money is in integers of nano-dollars, with a decimal text beside it; what is unknown is NULL and never 0. No view has
content: contents are named by digest, so that what is erased is nowhere else.
"""

# ruff: noqa: S608 - the statements are made of names in this file, never of input

from __future__ import annotations

from ledger import digests

EVENTS = {
    "seq": int,
    "id": str,
    "kind": str,
    "stream": str,
    "version": int,
    "key": str,
    "at": str,
    "at_us": int,
    "actor": str,
    "cause": str,
    "origin": int,
    "body": str,
}


def _fact(table: str, name: str, path: str = "") -> str:
    return f"json_extract({table}.body, '$.{path or name}') AS {name}"


def _facts(table: str, *names: str) -> str:
    return ", ".join(_fact(table, name) for name in names)


def _dollars(expression: str, name: str) -> str:
    """Return an amount twice: as it is, and as an exact decimal text in dollars."""
    text = f"printf('%d.%09d', ({expression}) / 1000000000, ({expression}) % 1000000000)"
    return f"{expression} AS {name}_nano_usd, CASE WHEN {expression} IS NOT NULL THEN {text} END AS {name}_usd"


def _cost(table: str, path: str, name: str) -> str:
    return _dollars(f"json_extract({table}.body, '$.{path}')", name)


def _score(expression: str) -> str:
    """Return a score in millionths and as a decimal text; NULL when it is no number."""
    number = f"CASE WHEN typeof({expression}) = 'integer' THEN {expression} END"
    text = (
        f"printf('%s%d.%06d', iif({expression} < 0, '-', ''), abs({expression}) / 1000000, abs({expression}) % 1000000)"
    )
    return f"{number} AS score_millionths, CASE WHEN typeof({expression}) = 'integer' THEN {text} END AS score"


_JUDGED = "json_extract(e.body, '$.score')"
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")


def _tokens(table: str) -> str:
    return ", ".join(_fact(table, name, f"usage.{name}") for name in _TOKENS)


def _frozen(*names: str) -> str:
    return ", ".join(_fact("o", name, f"facts.{name}") for name in names)


_CALLS = f"""
SELECT {_facts("r", "question", "attempt", "dispatch", "run", "alias")},
    CASE WHEN a.seq IS NOT NULL THEN 'answered' WHEN f.seq IS NOT NULL THEN 'failed'
        WHEN g.seq IS NOT NULL THEN 'released' WHEN l.seq IS NOT NULL THEN 'lost' ELSE 'open' END AS outcome,
    l.seq IS NOT NULL AS taken_for_lost, {_cost("r", "worst_case", "worst_case")},
    {_dollars("coalesce(json_extract(a.body, '$.cost'), json_extract(f.body, '$.cost'))", "cost")},
    {_fact("a", "served_model")}, {_tokens("a")}, {_fact("a", "latency_us")}, {_fact("a", "problem")},
    {_fact("f", "failure", "reason")}, {_fact("f", "status")},
    {_fact("r", "asked", "asked.blob")}, {_fact("a", "reply", "reply.blob")},
    r.at AS reserved_at, coalesce(a.at, f.at, g.at, l.at) AS ended_at,
    r.seq AS reserved_seq, coalesce(a.seq, f.seq, g.seq, l.seq) AS ended_seq,
    r.origin
FROM events AS r
LEFT JOIN events AS a ON a.kind = 'call-answered@1' AND a.origin = r.origin
    AND a.key = json_extract(r.body, '$.question') || ':' || json_extract(r.body, '$.attempt')
    AND json_extract(a.body, '$.dispatch') = json_extract(r.body, '$.dispatch')
LEFT JOIN events AS f ON f.kind = 'call-failed@1' AND f.key = r.key AND f.origin = r.origin
LEFT JOIN events AS g ON g.kind = 'call-released@1' AND g.key = r.key AND g.origin = r.origin
LEFT JOIN events AS l ON l.kind = 'call-lost@1' AND l.key = r.key AND l.origin = r.origin
WHERE r.kind = 'call-reserved@1'
"""

_CELLS = f"""
SELECT {_facts("o", "cell")},
    {_frozen("project", "build", "task", "lineage", "part", "sample")},
    (SELECT json_extract(rival.value, '$.alias') FROM events AS s, json_each(s.body, '$.inputs.rivals') AS rival
        WHERE s.kind = 'optimization-started@1' AND s.origin = o.origin
        AND json_extract(rival.value, '$.endpoint') = json_extract(o.body, '$.facts.candidate')
        ORDER BY s.seq LIMIT 1) AS alias,
    {_frozen("candidate", "setup")},
    CASE WHEN f.seq IS NOT NULL THEN 'finished' WHEN x.seq IS NOT NULL THEN 'excluded' ELSE 'open' END AS outcome,
    {_facts("f", "ended", "model_calls", "actions", "input_tokens", "output_tokens")},
    {_facts("x", "reason", "problem")},
    o.at AS opened_at, coalesce(f.at, x.at) AS closed_at, o.seq AS opened_seq, coalesce(f.seq, x.seq) AS closed_seq,
    o.origin
FROM events AS o
LEFT JOIN events AS f ON f.kind = 'cell-finished@1' AND f.key = o.key AND f.origin = o.origin
LEFT JOIN events AS x ON x.kind = 'cell-excluded@1' AND x.key = o.key AND x.origin = o.origin
WHERE o.kind = 'cell-opened@1'
"""

_JUDGMENTS = f"""
SELECT {_facts("e", "subject", "setup", "axis")}, {_score(_JUDGED)}, typeof({_JUDGED}) = 'integer' AS valid,
    {_facts("e", "attempt", "question")}, {_fact("e", "reply", "reply.blob")}, {_facts("e", "problem")}, e.at, e.seq,
    e.origin
FROM events AS e WHERE e.kind = 'judgment-recorded@1'
"""

_RESERVED = "json_extract(CASE WHEN r.seq IS NOT NULL THEN r.body ELSE q.body END, '$.worst_case')"
_REQUESTS = f"""
SELECT {_facts("q", "request")}, {_facts("q", "route", "identity", "model")},
    coalesce(json_extract(r.body, '$.alias'), json_extract(d.body, '$.alias'), json_extract(q.body, '$.alias'))
        AS alias,
    {_facts("q", "streamed", "ghost")},
    CASE WHEN q.kind = 'request-refused@1' THEN 'refused' ELSE
        coalesce(replace(replace(e.kind, 'request-', ''), '@1', ''), 'open') END AS outcome,
    coalesce(json_extract(q.body, '$.status'), json_extract(e.body, '$.status')) AS status,
    coalesce(json_extract(q.body, '$.code'), json_extract(e.body, '$.code')) AS code,
    {_fact("d", "reason")}, {_fact("d", "policy")},
    {_dollars(_RESERVED, "worst_case")}, {_cost("e", "cost", "cost")},
    {_fact("e", "served_model")}, {_tokens("e")}, {_facts("e", "latency_us", "first_byte_us")},
    (SELECT count(*) FROM events AS t WHERE t.stream = q.stream AND t.kind = 'attempt-failed@1' AND t.origin = q.origin)
        AS retries,
    {_fact("q", "asked", "body.blob")}, {_fact("e", "response", "response.blob")},
    q.at AS accepted_at, e.at AS ended_at, q.seq AS accepted_seq, e.seq AS ended_seq,
    q.origin
FROM events AS q
LEFT JOIN events AS d ON d.stream = q.stream AND d.kind = 'route-decided@1' AND d.origin = q.origin
LEFT JOIN events AS r ON r.seq = (SELECT max(t.seq) FROM events AS t
    WHERE t.stream = q.stream AND t.kind = 'request-rerouted@1' AND t.origin = q.origin)
LEFT JOIN events AS e ON e.stream = q.stream AND e.origin = q.origin
    AND e.kind IN ('request-answered@1', 'request-failed@1', 'request-abandoned@1', 'request-lost@1')
WHERE q.kind IN ('request-accepted@1', 'request-refused@1')
"""

_SPEND = f"""
WITH parts AS (
    SELECT 'run' AS source, run AS name, alias, outcome, cost_nano_usd AS cost, worst_case_nano_usd AS worst, origin
        FROM calls
    UNION ALL
    SELECT 'run', run, alias, 'again', NULL, worst_case_nano_usd, origin FROM calls
        WHERE taken_for_lost AND outcome <> 'lost' AND cost_nano_usd IS NOT NULL
    UNION ALL
    SELECT 'gateway', identity, alias, outcome, cost_nano_usd, worst_case_nano_usd, origin FROM requests
        WHERE outcome <> 'refused'
    UNION ALL
    SELECT 'gateway', q.identity, coalesce(nullif(json_extract(t.body, '$.alias'), ''), q.alias), 'again',
        json_extract(t.body, '$.cost'), json_extract(t.body, '$.worst_case'), t.origin
        FROM events AS t JOIN requests AS q ON q.request = json_extract(t.body, '$.request') AND q.origin = t.origin
        WHERE t.kind = 'attempt-failed@1'
), sums AS (
    SELECT source, name, alias, origin, sum(outcome NOT IN ('released', 'again')) AS calls,
        sum(outcome = 'answered') AS answered,
        coalesce(sum(cost), 0) AS settled,
        coalesce(sum(CASE WHEN cost IS NULL AND outcome NOT IN ('open', 'released') THEN worst END), 0) AS ambiguous,
        coalesce(sum(CASE WHEN outcome = 'open' THEN worst END), 0) AS reserved,
        sum(cost IS NULL AND outcome NOT IN ('open', 'released', 'lost', 'again')) AS unpriced
    FROM parts GROUP BY origin, source, name, alias
)
SELECT source, name, alias, calls, answered, {_dollars("settled", "settled")}, {_dollars("ambiguous", "ambiguous")},
    {_dollars("reserved", "reserved")}, unpriced, origin FROM sums
"""

_EXCLUSIONS = f"""
SELECT 'input' AS what, {_facts("e", "source", "place", "reason", "count")}, {_fact("e", "detail", "detail.blob")},
    NULL AS cell, NULL AS problem, e.at, e.seq, e.origin
FROM events AS e WHERE e.kind = 'input-excluded@1'
UNION ALL
SELECT 'cell', NULL, NULL, json_extract(e.body, '$.reason'), 1, NULL, {_facts("e", "cell", "problem")},
    e.at, e.seq, e.origin
FROM events AS e WHERE e.kind = 'cell-excluded@1'
"""

_LABELS = f"""
SELECT {_facts("e", "project", "setup", "subject", "axis")}, {_score(_JUDGED)},
    {_fact("e", "rationale", "rationale.blob")}, {_facts("e", "shown")},
    e.seq = max(e.seq) OVER (PARTITION BY e.origin, json_extract(e.body, '$.project'), json_extract(e.body, '$.setup'),
        json_extract(e.body, '$.subject'), json_extract(e.body, '$.axis')) AS in_force, e.at, e.seq, e.origin
FROM events AS e WHERE e.kind = 'label-recorded@1'
"""

_TRACES = f"""
SELECT {_facts("e", "trace", "lineage")}, {_fact("e", "size", "content.size")}, x.seq IS NOT NULL AS erased,
    e.at, e.seq, e.origin
FROM events AS e
LEFT JOIN events AS x ON x.kind = 'content-erased@1' AND x.key = json_extract(e.body, '$.content.blob')
    AND x.origin = 1
WHERE e.kind = 'trace-imported@1'
"""

VIEWS = {
    "calls": _CALLS,
    "cells": _CELLS,
    "judgments": _JUDGMENTS,
    "requests": _REQUESTS,
    "spend": _SPEND,
    "exclusions": _EXCLUSIONS,
    "labels": _LABELS,
    "traces": _TRACES,
}

# What the table and the views are; a database made by another release is made anew.
VERSION = digests.content_digest(repr((EVENTS, VIEWS)).encode())
