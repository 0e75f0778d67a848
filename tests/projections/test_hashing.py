"""The hashing embedder: equal text, equal bytes, everywhere; near texts near."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from projections import exact, hashing

TEXTS = ("", "a", "Ä\U0001f600", "list the files in /tmp", "x" * 9000, "\ud800 alone", "line\nline\n")
# Written down once: another machine, Python or numpy must give these very bytes.
KNOWN = "2ffd1d3b5448742190c8661533c36b7b37077fc01f4ec047506ce27686ca9da5"


def digest_of(rows: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> str:
    return hashlib.sha256(rows.tobytes()).hexdigest()


def test_vectors_are_the_bytes_that_were_written_down() -> None:
    assert digest_of(hashing.embed_many(TEXTS)) == KNOWN


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_vectors_are_equal_in_every_process_whatever_its_hash_seed(seed: str) -> None:
    program = (
        "import hashlib; from projections import hashing; from tests.projections.test_hashing import TEXTS;"
        "print(hashlib.sha256(hashing.embed_many(TEXTS).tobytes()).hexdigest())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
    )
    assert printed.stdout.strip() == KNOWN


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=12), st.sampled_from([64, 1024, 1536]))
def test_a_row_depends_on_its_own_text_alone(texts: list[str], dimensions: int) -> None:
    together = hashing.embed_many(texts, dimensions)
    assert together.shape == (len(texts), dimensions)
    for row, text in zip(together, texts, strict=True):
        assert row.tobytes() == hashing.embed(text, dimensions).tobytes()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_vector_is_zero_and_all_are_about_as_long(text: str) -> None:
    row = hashing.embed(text).astype(np.int64)
    assert 110 <= float(np.sqrt((row * row).sum())) <= 145


def test_a_batch_is_the_same_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {number} " * (number % 7) for number in range(300)]
    whole = hashing.embed_many(texts)
    monkeypatch.setattr(hashing, "_BATCH_CODE_POINTS", 50)
    assert whole.tobytes() == hashing.embed_many(texts).tobytes()


def test_scaling_rounds_exactly() -> None:
    sums = np.array([[3, 4], [1, 0], [-1, 1], [2**15 - 1, -(2**15) + 1]], dtype=np.int64)
    assert hashing._scaled(sums).tolist() == [[76, 102], [127, 0], [-90, 90], [90, -90]]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 2**31), st.integers(-2, 2))
@example(2**31, 0)
@example(2**31 - 1, -1)
@example(2**31, -1)
def test_integer_roots_are_exact(root: int, beside: int) -> None:
    number = min(max(0, root * root + beside), 2**62)
    (found,) = exact.integer_roots(np.array([number], dtype=np.int64)).tolist()
    assert found == math.isqrt(number)


def test_the_longest_repetitions_do_not_overflow() -> None:
    row = hashing.embed("a" * 3_000_000, 4096)
    assert sorted(row[row != 0].tolist()) in ([127], [-127])


def test_case_of_ascii_is_ignored_and_of_other_letters_kept() -> None:
    assert hashing.embed("LIST Files").tobytes() == hashing.embed("list files").tobytes()
    assert hashing.embed("Ä").tobytes() != hashing.embed("ä").tobytes()


def test_a_near_text_is_nearer_than_a_far_one() -> None:
    asked, near, far = hashing.embed_many(
        (
            "find the latest version of the npm package 'lodash'",
            "find the latest version of the npm package 'express'",
            "sort the lines of a file and count the duplicates",
        )
    ).astype(np.int64)
    assert asked @ near > 2 * (asked @ far)


def test_three_thousand_short_texts_take_less_than_a_core_second() -> None:
    texts = [f"Use curl to list the branches of repository number {number} and count them" for number in range(3_000)]
    begun = time.process_time()
    for text in texts:
        hashing.embed(text)
    assert time.process_time() - begun < 1
