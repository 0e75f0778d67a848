from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import Gateway, configured


@pytest.fixture
def provider() -> Iterator[Provider]:
    double = Provider()
    yield double
    double.close()


@pytest.fixture
def root(tmp_path: Path, provider: Provider) -> Path:
    return configured(tmp_path / "root", provider.url)


@pytest.fixture
def gateway(root: Path) -> Iterator[Gateway]:
    with Gateway(root) as running:
        yield running
