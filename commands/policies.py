"""Reading the policy in force from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ledger.families import policies
from projections.policy import Policy

if TYPE_CHECKING:
    from ledger.journal import Journal

FAMILY = policies.FAMILY


def read_policy(journal: Journal, project: str) -> Policy:
    """Return a project's policy in force; PolicyWanted when it has none. The journal must fold ``FAMILY``."""
    state: policies.Policies = journal.state(FAMILY)
    return msgspec.json.decode(journal.blob(state.policy(project).content.blob), type=Policy)
