"""Consumption: what each key used of each model on each day (UTC), in sums that are kept and never counted again."""

from __future__ import annotations

import msgspec

from ledger.money import NanoUSD


class Used(msgspec.Struct):
    """What one key used of one model on one day, told by when its requests were accepted.

    Requests without an ending are open. ``ambiguous`` is the worst case of what may have been charged for, and
    ``unpriced`` the calls of which not even that is known.
    """

    requests: int = 0
    answered: int = 0
    failed: int = 0
    abandoned: int = 0
    lost: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cost: NanoUSD = 0
    ambiguous: NanoUSD = 0
    unpriced: int = 0


Days = dict[int, dict[str, dict[str, Used]]]


class Row(msgspec.Struct, frozen=True):
    """One sum and what it is of; day is None for requests recorded before days were."""

    day: int | None
    identity: str
    alias: str
    used: Used


def used(days: Days, day: int, identity: str, alias: str) -> Used:
    """Return the sum to add to."""
    identities = days.get(day)
    if identities is None:
        identities = days[day] = {}
    aliases = identities.get(identity)
    if aliases is None:
        aliases = identities[identity] = {}
    one = aliases.get(alias)
    if one is None:
        one = aliases[alias] = Used()
    return one


def rows(days: Days, first: int | None, last: int | None) -> list[Row]:
    """Return the sums of a range of days, newest day first, then by key and model."""
    return [
        Row(day or None, identity, alias, one)
        for day in sorted(days, reverse=True)
        if (first is None or day >= first) and (last is None or day <= last)
        for identity, aliases in sorted(days[day].items())
        for alias, one in sorted(aliases.items())
    ]


def total(listed: list[Row]) -> Used:
    """Return the sum of sums."""
    every = Used()
    for row in listed:
        for name in Used.__struct_fields__:
            setattr(every, name, getattr(every, name) + getattr(row.used, name))
    return every
