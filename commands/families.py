"""Families: all of this release's, found in their modules, so that none can be forgotten."""

from __future__ import annotations

import importlib
import pkgutil

from ledger import families
from ledger.event import Family


def all_families() -> tuple[Family, ...]:
    """Return every family, by name."""
    modules = [
        importlib.import_module(f"{families.__name__}.{one.name}") for one in pkgutil.iter_modules(families.__path__)
    ]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Family)}
    return tuple(sorted(found.values(), key=lambda family: family.name))
