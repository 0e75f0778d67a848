"""A comparison as one HTML file: no script, nothing from elsewhere, and recorded text only as text."""

from __future__ import annotations

from html import escape

from commands.comparing.sections import Comparison, Row, Section
from commands.render.plain import printable

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{border:1px solid #8886;padding:.3rem .5rem;text-align:left;"
    "vertical-align:top;overflow-wrap:anywhere}caption{text-align:left}.wide{overflow-x:auto}"
    ":root{color-scheme:light dark}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(comparison: Comparison) -> str:
    """Return the page."""
    title = f"{comparison.a} and {comparison.b}"
    verdict = "They differ." if comparison.different else "There is no difference."
    body = "".join(_section(section) for section in comparison.sections if section.rows)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><h1>Two {_text(comparison.kind)}s</h1><p>a: <code>{_text(comparison.a)}</code><br>"
        f"b: <code>{_text(comparison.b)}</code></p><p>{verdict}</p>{body}</body></html>\n"
    )


def _section(section: Section) -> str:
    columns = list(section.rows[0])
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    lines = "".join(_row(row, columns) for row in section.rows)
    return (
        f'<section id="{_text(section.name)}"><h2>{_text(section.title)}</h2><div class="wide">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div></section>"
    )


def _row(row: Row, columns: list[str]) -> str:
    cells = ("unknown" if row.get(name) is None else str(row[name]) for name in columns)
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return escape(printable(text))
