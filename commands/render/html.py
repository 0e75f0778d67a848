"""HTML: elements that the pages share. htpy escapes every text and attribute; nothing here is ever taken as markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import htpy as h
from markupsafe import Markup

from commands.render.plain import one_line, printable
from commands.render.report_words import count, shortened

if TYPE_CHECKING:
    from htpy import Element, Node


def page(title: str, style: str, body: Node) -> str:
    """Return a whole page that loads nothing, runs nothing and sends nothing: its one style is allowed by its hash."""
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    whole = h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(http_equiv="Content-Security-Policy", content=policy),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.meta(name="referrer", content="no-referrer"),
            h.title[one_line(title)],
            h.style[Markup(style)],  # noqa: S704 - the page's own, from this package, and never recorded text
        ],
        h.body[body],
    ]
    return f"{whole}\n"


def section(name: str, title: str, *content: Node) -> Element:
    """Return a section with its heading."""
    return h.section(id=name, aria_labelledby=f"{name}-title")[h.h2(id=f"{name}-title")[title], list(content)]


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[Node]], *, class_: str = "") -> Node:
    """Return a table whose first column names the row. On a narrow screen each row becomes a card.

    The roles are spelled out because some browsers drop them where rows are laid out as blocks.
    """
    if not rows:
        return None
    return h.table(role="table", class_=f"cards {class_}".strip())[
        h.caption[caption],
        h.thead(role="rowgroup")[h.tr(role="row")[[h.th(role="columnheader", scope="col")[name] for name in header]],],
        h.tbody(role="rowgroup")[[_row(header, row) for row in rows]],
    ]


def _row(header: Sequence[str], row: Sequence[Node]) -> Element:
    first, *rest = row
    return h.tr(role="row")[
        h.th(role="rowheader", scope="row")[first],
        [h.td(role="cell", data_label=name)[h.span[cell]] for name, cell in zip(header[1:], rest, strict=True)],
    ]


def folded(summary: Node, *content: Node, class_: str | None = None) -> Element:
    """Return what is opened on demand."""
    return h.details(class_=class_)[h.summary[summary], list(content)]


def recorded(text: str, most: int, class_: str = "said") -> Element:
    """Return a recorded text as it is, without what acts on a reader, its middle left out where it is long."""
    head, left_out, tail = shortened(printable(text), most)
    if not left_out:
        return h.pre(class_=class_)[head or h.em["nothing"]]
    return h.pre(class_=class_)[head, h.em[f" [{count(left_out)} characters left out] "], tail]


def code(text: str, most: int = 0) -> Element:
    """Return an id or a digest, shortened when ``most`` is given."""
    shown = one_line(text)
    return h.code[shown[:most] if most else shown]


def hidden(text: str) -> Element:
    """Return words for those who don't see the page."""
    return h.span(class_="unseen")[text]
