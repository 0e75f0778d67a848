"""What tests of several commands share."""

from __future__ import annotations

import pytest

from tests.commands.reading import Journey, Said


@pytest.fixture(scope="session")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """A whole path, taken once by a process that runs tests of it."""
    return Journey(tmp_path_factory.mktemp("journey"))


@pytest.fixture
def exp(capsys: pytest.CaptureFixture[str], journey: Journey) -> Said:
    """Commands on the whole path; they must leave it as it is."""
    return Said(capsys, journey.root)
