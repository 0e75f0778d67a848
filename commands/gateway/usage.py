"""Usage: what each key used of each model on each day, as JSON and as a page: read from sums, never counted anew."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from commands.gateway import problems
from commands.limits import shown
from commands.render.plain import one_line
from ledger import allowances, consumption, money
from ledger.allowances import DAY, OVERALL, day_name, day_number
from ledger.families.serving import Serving

DAYS = 31
_AMBIGUOUS = "Ambiguous is the worst case of calls that may have been charged for."
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#1b1b1b}table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:left}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums}caption{text-align:left;font-weight:600;padding:.5rem 0}"
)


class Asked(msgspec.Struct, frozen=True):
    """A range of days, and whose: everybody's where ``identity`` is None."""

    first: int | None
    last: int | None
    identity: str | None


def asked(query: dict[str, str], now: int, identity: str | None) -> Asked:
    """Return what a query asks for: the last days where it doesn't say; a Problem when it is no range of days."""
    unknown = set(query) - {"from", "to"}
    if unknown:
        raise problems.unreadable("from=YYYY-MM-DD and to=YYYY-MM-DD are known here", min(unknown))
    today = now // DAY
    days: dict[str, int] = {}
    for name, text in query.items():
        try:
            days[name] = day_number(text)
        except ValueError as error:
            raise problems.unreadable(f"{name} must be a day such as {day_name(today)}", name) from error
    last = days.get("to", today)
    return Asked(days.get("from", last - DAYS + 1), last, identity)


def facts(used: consumption.Used) -> dict[str, int]:
    """Return a sum's members; money in integer nano-dollars."""
    named = {"cost": "cost_nano_usd", "ambiguous": "ambiguous_nano_usd", "unpriced": "unpriced_calls"}
    return {named.get(name, name): getattr(used, name) for name in used.__struct_fields__}


def listed(state: Serving, wanted: Asked) -> list[consumption.Row]:
    """Return the sums that are asked for; those without a day when no first day is asked for."""
    rows = consumption.rows(state.usage, wanted.first, wanted.last)
    return [row for row in rows if wanted.identity is None or row.identity == wanted.identity]


def document(state: Serving, wanted: Asked, now: int) -> dict[str, Any]:
    """Return the usage as JSON's values."""
    rows = listed(state, wanted)
    return {
        "object": "usage",
        "from": _name(wanted.first),
        "to": _name(wanted.last),
        "data": [{"day": _day(row), "key": row.identity, "model": row.alias, **facts(row.used)} for row in rows],
        "total": facts(consumption.total(rows)),
        "limits": _limits(state, wanted, now),
    }


def _limits(state: Serving, wanted: Asked, now: int) -> list[dict[str, str | int | None]]:
    """Return each key's limits, and with everybody's those of all together, whose key is None."""
    names = sorted(set(state.keys.values())) if wanted.identity is None else [wanted.identity]
    accounts = [(name, name) for name in names] + ([(None, OVERALL)] if wanted.identity is None else [])
    return [{"key": name, **shown(state.account(identity), now)} for name, identity in accounts]


def _name(day: int | None) -> str | None:
    return None if day is None else day_name(day)


def _day(row: consumption.Row) -> str | None:
    return None if row.day is None else day_name(row.day)


_COLUMNS = (
    "requests", "answered", "failed", "abandoned", "lost",
    "input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens",
)  # fmt: skip


def page(state: Serving, wanted: Asked, now: int) -> bytes:
    """Return the usage as a page that needs nothing beside itself."""
    rows = listed(state, wanted)
    head = ["day", "key", "model", *(name.replace("_", " ") for name in _COLUMNS), "cost", "ambiguous", "unpriced"]
    body = [_row([_day(row) or "before", row.identity, row.alias], _numbers(row.used)) for row in rows]
    body.append(_row(["total", "", ""], _numbers(consumption.total(rows))))
    limits = _limits(state, wanted, now)
    held = [_row(["all together" if value is None else str(value) for value in one.values()], []) for one in limits]
    title = f"Usage from {_name(wanted.first)} to {_name(wanted.last)} (UTC)"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f"{_table('What was used', head, body)}"
        f"{_table('Limits now', [name.replace('_', ' ') for name in limits[0]] if limits else [], held)}"
        f"<p>As of {allowances.stamp(now)}. {_AMBIGUOUS}</p></html>"
    ).encode()


def _numbers(used: consumption.Used) -> list[str]:
    counts = [f"{getattr(used, name):,}" for name in _COLUMNS]
    return [*counts, money.usd(used.cost, 6), money.usd(used.ambiguous, 6), f"{used.unpriced:,}"]


def _row(texts: list[str], numbers: list[str]) -> str:
    """Return a row; texts are made harmless, numbers are so already."""
    first = "".join(f"<td>{escape(one_line(text))}</td>" for text in texts)
    rest = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return f"<tr>{first}{rest}</tr>"


def _table(caption: str, head: list[str], rows: list[str]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table><caption>{caption}</caption><thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
