"""Labels on the command line: keys that any shell and terminal keeps whole, and everything wrong or missing at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from ledger.errors import Refusal
from ledger.families.judging import Axis, Scaled, in_words, scaled

_HOW = (
    "add these to the same command, a number for each SCORE; a score that differs from the judge's needs a "
    "--judgment with the same key and the reason as its TEXT"
)
_VALUES = {"--label": "SCORE", "--judgment": "TEXT"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class LabelsWanted(Refusal, name="labels-wanted", exit_code=12):
    """The judge has proposed, and a person's labels are missing; each missing flag is a line."""

    def __init__(self, project: str, missing: Sequence[str], spend: str) -> None:
        super().__init__(
            f"{len(missing)} {'answer' if len(missing) == 1 else 'answers'} from a person "
            f"{'is' if len(missing) == 1 else 'are'} missing; no label was recorded",
            where=f"the calibration of project {project}; {spend}",
            remedy="\n".join((_HOW, *missing)),
        )


class LabelsRefused(Refusal, name="labels-refused", exit_code=17):
    """Labels or rationales that can't be used; each is named, and so is everything that is missing."""

    def __init__(self, project: str, wrong: Sequence[str], missing: Sequence[str]) -> None:
        also = ("also missing:", *missing) if missing else ()
        super().__init__(
            f"{len(wrong)} of the flags can't be used; no label was recorded",
            where=f"the calibration of project {project}",
            remedy="\n".join((*wrong, *also)),
        )


class Wanted(msgspec.Struct, frozen=True):
    """An axis of a sampled item: its judge's proposal (None: excluded), and the label in force, if there is one."""

    axis: Axis
    proposal: Scaled | None
    label: Scaled | None = None
    explained: bool = False


class Given(msgspec.Struct, frozen=True):
    """A label as given."""

    score: Scaled
    rationale: str | None
    origin: str = ""


class Readings(msgspec.Struct):
    """The labels that were given, what is wrong with the flags, and which flags are missing."""

    given: dict[str, Given]
    wrong: list[str]
    missing: list[str]


def spelled(trace_id: str) -> str:
    """Return a trace id within ``[A-Za-z0-9_:-]``, so that different ids stay different.

    Any other byte becomes a colon and two hexadecimal digits; so does a colon, and a hyphen at the beginning, which
    would look like a flag.
    """
    data = trace_id.encode(errors="surrogatepass")
    return "".join(
        chr(byte) if byte in _PLAIN and (place or byte != ord("-")) else f":{byte:02X}"
        for place, byte in enumerate(data)
    )


def label_key(item: str, axis: str) -> str:
    """Return the key of an item's axis."""
    return f"{item}:{axis}"


def read_labels(labels: Sequence[str], judgments: Sequence[str], wanted: Mapping[str, Wanted]) -> Readings:
    """Read ``--label KEY=SCORE`` and ``--judgment KEY=TEXT``; report everything that is wrong or missing."""
    wrong: list[str] = []
    scores = _scores(_pairs("--label", labels, wanted, wrong), wanted, wrong)
    rationales = _rationales(_pairs("--judgment", judgments, wanted, wrong), wrong)
    given: dict[str, Given] = {}
    missing: list[str] = []
    tried = {text.partition("=")[0] for text in labels}
    for key, item in wanted.items():
        if item.proposal is None:
            continue
        score = scores.get(key, item.label)
        if score is None:
            if key not in tried:
                missing.append(f"--label {key}=SCORE")
            continue
        explained = key in rationales or (item.explained and score == item.label)
        if score != item.proposal and not explained:
            missing.append(f"--judgment {key}=TEXT")
        given[key] = Given(score, rationales.get(key))
    return Readings(given, wrong, missing)


def _pairs(flag: str, texts: Iterable[str], wanted: Mapping[str, Wanted], wrong: list[str]) -> dict[str, str]:
    """Return values by key, once a key; what has no value, no such key, or is there twice, is wrong."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark:
            wrong.append(f"{flag} {key}: it has no value; write {flag} {key}={_VALUES[flag]}")
        elif key not in wanted:
            wrong.append(f"{flag} {key}: no sampled item has this key")
        elif wanted[key].proposal is None:
            wrong.append(f"{flag} {key}: this item is excluded, since the judge's replies to it can't be used; drop it")
        elif key in pairs:
            wrong.append(f"{flag} {key}: it is there twice")
        else:
            pairs[key] = value
    return pairs


def _scores(pairs: Mapping[str, str], wanted: Mapping[str, Wanted], wrong: list[str]) -> dict[str, Scaled]:
    scores = {}
    for key, value in pairs.items():
        axis = wanted[key].axis
        score = read_score(value)
        if score is None or not axis.low <= score <= axis.high:
            why = "is no number with at most six decimals" if score is None else "is out of range"
            wrong.append(
                f"--label {key}: {value!r} {why}; write a number from {in_words(axis.low)} to {in_words(axis.high)}"
            )
        else:
            scores[key] = score
    return scores


def _rationales(pairs: Mapping[str, str], wrong: list[str]) -> dict[str, str]:
    texts = {}
    for key, value in pairs.items():
        if value.strip():
            texts[key] = value.encode(errors="replace").decode()
        else:
            wrong.append(f"--judgment {key}: the rationale is empty")
    return texts


def read_score(text: str) -> Scaled | None:
    """Return a score in millionths; None when the text is no decimal number, or finer than that."""
    number = text.strip()
    return scaled(Decimal(number)) if _NUMBER.fullmatch(number) else None
