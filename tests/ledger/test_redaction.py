from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.redaction import REDACTED, Redactor, redact_key_shapes

SECRETS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=40)


@given(SECRETS, st.text(max_size=30), st.text(max_size=30))
def test_a_value_goes_whether_it_stands_in_text_in_json_or_in_an_address(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    for written in (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        quote(secret, safe=""),
    ):
        text, count = redactor.text(before + written + after)
        assert count >= 1
        assert secret not in text or secret in REDACTED
    data, count = redactor.data(
        json.dumps({"x": before + secret + after}, ensure_ascii=False).encode("utf-8", "replace")
    )
    assert count >= 1
    json.loads(data)


def test_json_stays_json_also_where_a_value_spans_an_escape_or_the_digits_of_a_number() -> None:
    redactor = Redactor(["12345678", "nabcdefgh"])
    data, _ = redactor.data(b'{"a":112345678,"b":"x\\nabcdefgh","c":"my 12345678","d":["nabcdefgh"]}')
    assert json.loads(data) == {"a": 112345678, "b": "x\nabcdefgh", "c": f"my {REDACTED}", "d": [REDACTED]}


@pytest.mark.parametrize("written", ['a/quoted"key', 'a/quoted\\"key', 'a\\/quoted\\"key', "a%2Fquoted%22key"])
def test_a_value_with_marks_goes_in_each_way_of_writing_it(written: str) -> None:
    assert Redactor(['a/quoted"key']).text(f"<{written}>") == (f"<{REDACTED}>", 1)


def test_values_are_counted_and_the_longest_goes_first() -> None:
    assert Redactor(["long-secret", "long-secret-longer"]).text("a long-secret-longer and long-secret") == (
        f"a {REDACTED} and {REDACTED}",
        2,
    )


def test_a_short_value_is_left_because_it_cannot_be_told_from_words() -> None:
    assert Redactor(["none", ""]).text("none of it") == ("none of it", 0)


def test_without_credentials_nothing_changes() -> None:
    assert Redactor().text("x") == ("x", 0)
    assert Redactor().data(b"x") == (b"x", 0)


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijklmnopqrstuv",
        "sk-ant-api03-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijklmnop",
        "glpat-abcdefghijklmnopqrst",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "gsk_abcdefghijklmnopqrstuvwxyz",
        "xoxb-1234567890-abcdef",
        "AKIAABCDEFGHIJKLMNOP",
        "AIzaSyABCDEFGHIJKLMNOPQRSTUVWXYZ0123456",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG1ub3A",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA",
    ],
)
def test_what_looks_like_a_key_goes(key: str) -> None:
    text, count = redact_key_shapes(f"before {key}")
    assert (text, count) == (f"before {REDACTED}", 1)


def test_a_bearer_token_goes_and_its_scheme_stays() -> None:
    assert redact_key_shapes("Authorization: Bearer abcdef0123456789abcdef") == (f"Authorization: Bearer {REDACTED}", 1)


@pytest.mark.parametrize(
    "text", ["task-success", "sk-short", "risk-assessment-of-something-long", "eyJ", "a bearer of news", ""]
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact_key_shapes(text) == (text, 0)


def test_an_error_loses_both() -> None:
    redactor = Redactor(["configured-value"])
    assert redactor.error("configured-value sk-abcdefghijklmnopqrst") == f"{REDACTED} {REDACTED}"
