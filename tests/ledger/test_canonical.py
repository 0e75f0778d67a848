"""Canonical JSON: one value, one sequence of bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.canonical import GREATEST_INTEGER, NotCanonical, digest_input, encode
from ledger.event import BlobRef
from tests.ledger.notes import NoteTaken

INTEGERS = st.integers(-GREATEST_INTEGER, GREATEST_INTEGER)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner),
)


@given(VALUES)
def test_what_is_encoded_reads_back_equal(value: object) -> None:
    assert json.loads(encode(value)) == value


@given(VALUES)
def test_encoding_what_was_read_gives_the_same_bytes(value: object) -> None:
    assert encode(json.loads(encode(value))) == encode(value)


@given(st.dictionaries(st.text(st.characters(max_codepoint=127)), INTEGERS))
def test_the_order_in_which_members_were_added_does_not_show(members: dict[str, int]) -> None:
    assert encode(dict(reversed(members.items()))) == encode(members)
    assert list(json.loads(encode(members))) == sorted(members)


@given(VALUES)
def test_bytes_are_those_of_the_documented_form(value: object) -> None:
    assert encode(value).decode() == json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def test_every_character_below_256_is_written_in_the_documented_form() -> None:
    text = "".join(map(chr, range(256))) + "\u2028\U0001f600"
    assert encode(text).decode() == json.dumps(text, ensure_ascii=False)


@given(TEXT, INTEGERS, st.none() | TEXT)
def test_a_fact_is_encoded_as_the_mapping_of_its_members(subject: str, number: int, name: str | None) -> None:
    taken = NoteTaken(subject=subject, number=number, name=name, text=BlobRef(blob="b3:", size=1, media="x"))
    same = {
        "subject": subject,
        "number": number,
        "name": name,
        "text": {"blob": "b3:", "size": 1, "media": "x"},
    }
    assert encode(taken) == encode(same)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (1.0, "float at /"),
        ({"a": [0, {"b": math.nan}]}, "float at /a/1/b"),
        (GREATEST_INTEGER + 1, "integer out of range at /"),
        ([-GREATEST_INTEGER - 1], "integer out of range at /0"),
        ({"é": 1}, "key that is not ASCII text at /"),
        ({1: 1}, "key that is not ASCII text at /"),
        ("\ud800", "a lone surrogate in a string"),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_its_place(value: object, where: str) -> None:
    with pytest.raises(NotCanonical) as refused:
        encode(value)
    assert str(refused.value) == where


def test_parts_are_named_by_the_bytes_of_their_list() -> None:
    assert digest_input("a", 1, None) == b'["a",1,null]'


class Shaped(msgspec.Struct, rename="camel", omit_defaults=True):
    of_any: Any
    zeta_first: int = 0
    alpha_last: str = ""


class Tagged(msgspec.Struct, tag="t", array_like=True):
    inner: Any


@given(VALUES, INTEGERS)
def test_a_struct_is_encoded_as_what_it_stands_for(value: object, number: int) -> None:
    shaped = Shaped(of_any=(value, Tagged(value)), zeta_first=number)
    assert encode(shaped) == encode(msgspec.to_builtins(shaped))


@pytest.mark.parametrize("value", [1.0, math.nan, {1: 2}, {"\u00e9": 1}, 2**53, {1.5}, -(2**53)])
def test_what_has_no_form_is_refused_inside_of_structs_too(value: object) -> None:
    for place in (value, [value], {"a": value}, (value,), Tagged(value), Shaped(of_any=[Tagged({"b": value})])):
        with pytest.raises(NotCanonical):
            encode(Shaped(of_any=place))
