"""Reading the policy in force from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ledger.errors import Refusal
from ledger.families import policies
from projections.policy import VERSION, Policy

if TYPE_CHECKING:
    from ledger.journal import Journal

FAMILY = policies.FAMILY


class PolicyOutdated(Refusal, name="policy-outdated", exit_code=125):
    """A policy was frozen by another release, in a form that this one doesn't decide by."""

    def __init__(self, project: str, version: str) -> None:
        super().__init__(
            f"the policy in force is of version {version}, and this release decides by {VERSION}",
            where=f"project {project}",
            remedy=f"run `exp optimize router {project} ...` as before: its answers are recorded, so nobody is asked",
        )


class _Versioned(msgspec.Struct):
    version: str


def read_policy(journal: Journal, project: str) -> Policy:
    """Return a project's policy in force; PolicyWanted when it has none, PolicyOutdated for another release's.

    The journal must fold ``FAMILY``.
    """
    state: policies.Policies = journal.state(FAMILY)
    content = journal.blob(state.policy(project).content.blob)
    version = msgspec.json.decode(content, type=_Versioned).version
    if version != VERSION:
        raise PolicyOutdated(project, version)
    return msgspec.json.decode(content, type=Policy)
