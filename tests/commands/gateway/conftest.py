from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.gateway.provider_double import Provider, ordinary
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


@pytest.fixture(scope="module")
def standing_provider() -> Iterator[Provider]:
    double = Provider()
    yield double
    double.close()


@pytest.fixture(scope="module")
def shared_gateway(standing_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway for tests that leave nothing behind."""
    with Gateway(configured(tmp_path_factory.mktemp("shared") / "root", standing_provider.url)) as running:
        yield running


@pytest.fixture
def shared_provider(standing_provider: Provider) -> Provider:
    """The provider of the shared gateway, as if nobody had asked it before."""
    standing_provider.script = ordinary
    standing_provider.asked.clear()
    return standing_provider
