"""Pages taken apart: their elements in order, each with its attributes and the text right inside it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

VOID = frozenset({"meta", "link", "img", "br", "input", "hr", "base"})


class Part(NamedTuple):
    """An element: its name, its attributes, the names of those around it, and its own text."""

    name: str
    attributes: dict[str, str]
    around: tuple[str, ...]
    text: list[str]


class Parts(HTMLParser):
    """Reads a page; an end that doesn't fit its start is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Part] = []
        self._open: list[Part] = []
        self.feed(page)
        self.close()
        if self._open:
            raise ValueError([part.name for part in self._open])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            raise ValueError((tag, names))
        part = Part(tag, {name: value or "" for name, value in attrs}, tuple(one.name for one in self._open), [])
        self.found.append(part)
        if tag not in VOID:
            self._open.append(part)

    def handle_endtag(self, tag: str) -> None:
        if self._open.pop().name != tag:
            raise ValueError(tag)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].text.append(data)

    def all(self, name: str) -> list[Part]:
        return [part for part in self.found if part.name == name]
