import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from commands.render.plain import one_line, printable


@given(st.text())
def test_no_control_character_is_left_but_line_feed_and_tab(text: str) -> None:
    left = {mark for mark in printable(text) if unicodedata.category(mark) in {"Cc", "Cs"}}
    assert left <= {"\n", "\t"}


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"])))
def test_words_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_an_escape_sequence_goes_with_its_parameters() -> None:
    assert printable("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain") == "red and plain"


def test_a_direction_override_cannot_reorder_what_is_read() -> None:
    assert printable("safe\u202etxt.exe") == "safetxt.exe"
