"""Detectors: what is found, what stands in its place, and that no text takes more than its length in time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.detectors import (
    BY_NAME,
    CREDENTIAL,
    MOST_DEPTH,
    DetectorUnknown,
    Redaction,
    chosen,
)
from ledger.redaction import REDACTED, Redactor, redact_key_shapes

KEY = "sk-abcdefghijklmnopqrst"
CARD = "4111111111111111"
MARK = r"\[[a-z-]+:[0-9a-f]{12}\]"


def everything(origin: str = "ledger-1") -> Redaction:
    return Redaction(Redactor(["configured-secret"]), chosen("all"), origin=origin)


def found(text: str, names: str = "all") -> dict[str, int]:
    redaction = Redaction(Redactor(), chosen(names), origin="x")
    redaction(text)
    return dict(redaction.counts)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (KEY, "api-key"),
        ("AKIAABCDEFGHIJKLMNOP", "api-key"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "token"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "token"),
        ("-----BEGIN EC PRIVATE KEY-----\nMIIE\n-----END EC PRIVATE KEY-----", "private-key"),
        ("bob@example.com", "email"),
        ("Bob.O+tag@sub.example.co.uk", "email"),
        ("jürgen@müller.de", "email"),
        ("bob%40example.com", "email"),
        (r"bob\u0040example.com", "email"),
        ("+1 (555) 010-9999", "phone"),
        ("+49 30/1234567", "phone"),
        ("0044 20 7946 0958", "phone"),
        ("(555) 010-9999", "phone"),
        ("555-010-9999", "phone"),
        ("1.555.010.9999", "phone"),
        (CARD, "card"),
        ("4111 1111 1111 1111", "card"),
        ("5555-5555-5555-4444", "card"),
        ("2221 0000 0000 0009", "card"),
        ("378282246310005", "card"),
        ("6011111111111117", "card"),
        ("3530111333300000", "card"),
        ("30569309025904", "card"),
        ("4000000000000000006", "card"),
    ],
)
def test_each_shape_is_found_by_the_detector_of_its_name_and_by_no_other(text: str, name: str) -> None:
    for around in (text, f"see {text} there", f"<{text}>", f'"{text}",', f"line\n{text}\n", rf"line\n{text}\n"):
        assert found(around) == {name: 1}, around
        assert found(around, name) == {name: 1}
        others = ",".join(other for other in BY_NAME if other != name)
        assert text not in everything()(around)[0]
        assert name not in found(around, others)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30 12:00:00+00:00",
        "1732900000000000000",
        "4111111111111112",  # the last digit isn't what the others ask for
        "9111111111111111110",
        "0.4111111111111111",
        "a4111111111111111",
        "4111111111111111a",
        "41111111111111111111",
        "192.168.100.100",
        "react@18.2.0 and @decorator and a @ b",
        "user@localhost",
        "@@ -1,3 +1,4 @@",
        "555010999",
        "version 1.2.3-4",
        "+1234567",
        "+1234567890123456",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert everything()(text) == (text, 0)


def test_card_numbers_are_found_beside_other_digits() -> None:
    shown, count = everything()("ref 12 4111 1111 1111 1111 12/26, 5555555555554444 4111-1111-1111-1111 7")
    assert count == 3
    assert not {"4111", "5555"} & set(shown.replace("-", " ").split())
    assert shown.startswith("ref 12 [card:")
    assert shown.endswith("] 7")
    assert " 12/26, [card:" in shown


def test_an_equal_value_has_an_equal_placeholder_in_one_ledger_and_another_one_in_another() -> None:
    one, other = everything("a"), everything("b")
    assert one("bob@x.com")[0] == one("Bob@X.com")[0] == one(r"bob\u0040x.com")[0]
    assert one("bob@x.com")[0] != one("eve@x.com")[0]
    assert one("bob@x.com")[0] != other("bob@x.com")[0]
    assert one(CARD)[0] == one("4111 1111 1111 1111")[0]
    assert one("+1 555 010 9999")[0] == one("+1-555-010-9999")[0]
    assert one(KEY)[0] != one(f"{KEY}u")[0]
    assert one("bob@x.com")[0] == everything("a")("bob@x.com")[0]


def test_without_an_origin_keys_go_as_they_always_did() -> None:
    redaction = Redaction(Redactor())
    text = f"before {KEY} after"
    assert redaction(text) == (f"before {REDACTED} after", 1)
    assert redaction(text) == redact_key_shapes(text)
    assert redaction.counts == {"api-key": 2}
    assert redaction("bob@x.com +1 555 010 9999") == ("bob@x.com +1 555 010 9999", 0)


def test_a_configured_value_goes_whatever_is_chosen() -> None:
    redaction = Redaction(Redactor(["configured-secret"]), chosen("none"), origin="x")
    assert redaction(f"configured-secret {KEY}") == (f"{REDACTED} {KEY}", 1)
    assert redaction.counts == {CREDENTIAL: 1}


def test_names_stand_for_detectors_in_any_spelling() -> None:
    assert [one.name for one in chosen("keys")] == ["private-key", "api-key", "token"]
    assert [one.name for one in chosen("phones, e-mail")] == ["email", "phone"]
    assert [one.name for one in chosen("PRIVATE_KEYS,token,none")] == ["private-key", "token"]
    assert chosen("none") == ()
    assert {one.name for one in chosen("all")} == set(BY_NAME)
    for names in ("", "passport", "email,", "all,other"):
        with pytest.raises(DetectorUnknown, match="nothing here detects"):
            chosen(names)


def test_what_escapes_hide_in_json_in_texts_is_found() -> None:
    inner = json.dumps({"to": "bob@x.com", "note": f"first\n{KEY}"})
    middle = json.dumps({"arguments": inner.replace("@", "\\u0040"), "n": 1})
    outer = json.dumps([middle]).replace("s", "\\u0073")
    shown, count = everything()(outer)
    assert count == 2
    assert "bob" not in shown
    value = json.loads(json.loads(json.loads(shown)[0])["arguments"])
    assert value["to"].startswith("[email:")
    assert value["note"].startswith("first\n[api-key:")


def test_json_stays_json_when_a_number_goes_and_is_left_as_written_otherwise() -> None:
    shown, count = everything()(f'{{ "card": {CARD}, "n": 1.5, "ok": true}}')
    assert count == 1
    assert json.loads(shown)["card"].startswith("[card:")
    assert (json.loads(shown)["n"], json.loads(shown)["ok"]) == (1.5, True)
    spaced = f'{{ "a" : "{KEY}" }}'
    assert everything()(spaced)[0].startswith('{ "a" : "[api-key:')
    assert everything()(f"{{{CARD}")[1] == 1


def test_names_of_members_are_cleaned_as_well() -> None:
    shown, count = everything()('{"\\u0062ob@x.com": [1]}')
    assert count == 1
    assert next(iter(json.loads(shown))).startswith("[email:")


def test_what_is_nested_deeper_than_anybody_looks_is_read_as_text() -> None:
    deep = "[" * (MOST_DEPTH + 5) + '"bob@x.com"' + "]" * (MOST_DEPTH + 5)
    assert everything()(deep)[1] == 1
    assert everything()("[" * 100_000 + '"bob@x.com"')[1] == 1
    text: object = "bob\\u0040x.com\\u0041"
    for _ in range(8):
        text = json.dumps([text])
    assert everything()(str(text))[1] <= 1


class Sevens:
    name = "sevens"
    regex = "7"

    def __call__(self, text: str) -> Iterator[tuple[int, int]]:
        yield from ((place, place + 1) for place, mark in enumerate(text) if mark == "7")


def test_a_rule_leaves_placeholders_alone() -> None:
    redaction = Redaction(Redactor(), chosen("email"), [Sevens()], origin="x")
    assert redaction.names == ("email", "sevens")
    once, count = redaction("7 bob@x.com eve@x.com 77")
    assert count == 5
    assert redaction.counts == {"sevens": 3, "email": 2}
    assert redaction(once) == (once, 0)


def test_a_rule_finds_in_numbers_of_json() -> None:
    redaction = Redaction(Redactor(), (), [Sevens()], origin="x")
    assert json.loads(redaction('{"n": 17}')[0])["n"].startswith("1[sevens:")


@given(st.text(max_size=80) | st.sampled_from(["bob@x.com", CARD, "+1 555 010 9999", KEY]).map(lambda t: f"x {t} y"))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    redaction = everything()
    once, _ = redaction(text)
    assert redaction(once) == (once, 0)


@pytest.mark.parametrize(
    "unit",
    ["eyJ-", "a@", "a%40b.1", "1 ", "4-", "1", "x@a.1.", "+1", ".", "\\n@", "(555) ", "00", "-----BEGIN ", "Bearer a"],
)
def test_time_grows_as_the_text_does(unit: str) -> None:
    redaction = everything()
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    redaction(text + "@ sk- \\u00")
    assert time.process_time() - start < 5
