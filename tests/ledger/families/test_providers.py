from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledger.event import Event
from ledger.families import providers
from ledger.families.providers import (
    Capabilities,
    ConfigurationDiffers,
    ConfigurationGaps,
    ConfigureProviders,
    Connection,
    Endpoint,
    Model,
    Providers,
    Role,
    RoleNotConfigured,
    UnknownAlias,
)

COMPLETES = Capabilities(supports_completions=True, maximum_output_tokens=16_384)
HERE = Connection(name="here", provider="openai-compatible", base_url="http://here")
WHOLE = ConfigureProviders(
    connections=(HERE,),
    models=(
        Model(alias="world", connection="here", model="w", capabilities=Capabilities(supports_completions=True)),
        Model(alias="judge", connection="here", model="j", capabilities=COMPLETES),
        Model(alias="embed", connection="here", model="e", capabilities=Capabilities(supports_embeddings=True)),
    ),
    roles={"world_model": "world", "judge": "judge", "embedder": "embed"},
)


def nothing_found(kind: str, key: str) -> Event | None:
    raise AssertionError(kind, key)


def decided(command: ConfigureProviders, state: Providers) -> tuple[Event, ...]:
    return providers.decide(command, state, nothing_found)


def after(*commands: ConfigureProviders) -> Providers:
    state = Providers()
    for command in commands:
        for event in decided(command, state):
            state = providers.evolve(state, event)
    return state


def with_fields(before: Model, **fields: Any) -> Model:
    return msgspec.structs.replace(before, **fields)


def test_a_configuration_is_recorded_and_repeating_it_records_nothing() -> None:
    state = after(WHOLE)
    assert state.endpoint("judge") == Endpoint(model=WHOLE.models[1], connection=HERE)
    assert (state.world_model, state.judge, state.embedder) == ("world", "judge", "embed")
    assert decided(WHOLE, state) == ()


def test_something_else_under_the_same_name_is_refused_unless_it_is_to_replace() -> None:
    state = after(WHOLE)
    moved = Connection(name="here", provider="openai-compatible", base_url="http://there")
    other = with_fields(WHOLE.models[0], model="w2", capabilities=COMPLETES)
    roles: dict[Role, str] = {"world_model": "judge"}
    change = ConfigureProviders(connections=(moved,), models=(other,), roles=roles)
    with pytest.raises(ConfigurationDiffers) as refused:
        decided(change, state)
    for word in ("here", "base_url", "world", "model", "maximum_output_tokens", "is world, given judge"):
        assert word in refused.value.what
    assert "http://there" not in refused.value.what
    replacing = msgspec.structs.replace(change, replace=True)
    assert len(decided(replacing, state)) == 3
    assert after(WHOLE, replacing).endpoint("world").connection.base_url == "http://there"


def test_every_gap_is_named_at_once_with_the_flag_that_repairs_it() -> None:
    roles: dict[Role, str] = {"world_model": "ghost", "judge": "m"}
    lacking = ConfigureProviders(
        models=(Model(alias="m", connection="nowhere", model="m", capabilities=Capabilities(maximum_output_tokens=9)),),
        roles=roles,
    )
    with pytest.raises(ConfigurationGaps) as refused:
        decided(lacking, Providers())
    gaps = refused.value.remedy.splitlines()
    assert len(gaps) == 5
    for flag in ("--connection-json", "--world-model ghost", "supports_completions", "16,384", "--embedder ALIAS"):
        assert any(flag in gap for gap in gaps), flag


@pytest.mark.parametrize("limit", [None, 16_383])
def test_a_judge_with_too_small_or_unknown_an_output_limit_is_refused(limit: int | None) -> None:
    small = with_fields(
        WHOLE.models[1], capabilities=Capabilities(supports_completions=True, maximum_output_tokens=limit)
    )
    command = msgspec.structs.replace(WHOLE, models=(WHOLE.models[0], small, WHOLE.models[2]))
    with pytest.raises(ConfigurationGaps) as refused:
        decided(command, Providers())
    assert "16,384" in refused.value.remedy


def test_an_embedder_must_embed() -> None:
    roles: dict[Role, str] = {**WHOLE.roles, "embedder": "world"}
    with pytest.raises(ConfigurationGaps) as refused:
        decided(msgspec.structs.replace(WHOLE, roles=roles), Providers())
    assert "supports_embeddings" in refused.value.remedy


def test_what_refers_to_an_entry_that_could_not_be_read_lacks_nothing_else() -> None:
    roles: dict[Role, str] = {"world_model": "w", "judge": "w", "embedder": "w"}
    state = Providers(roles=roles, models={"m": Model(alias="m", connection="c", model="m")})
    assert providers.gaps(state, frozenset({"w", "c"})) == ()
    assert len(providers.gaps(state)) == 4


def test_a_model_may_be_added_later() -> None:
    added = ConfigureProviders(models=(Model(alias="new", connection="here", model="n"),))
    assert sorted(after(WHOLE, added).models) == ["embed", "judge", "new", "world"]


def test_asking_for_what_is_not_configured_is_refused_by_name() -> None:
    with pytest.raises(UnknownAlias):
        after(WHOLE).endpoint("ghost")
    with pytest.raises(RoleNotConfigured) as refused:
        _ = Providers().judge
    assert "--judge" in refused.value.remedy


def test_a_models_digest_is_about_what_it_answers_and_not_about_names_prices_or_places() -> None:
    base = after(WHOLE).endpoint("judge")
    cheaper = with_fields(
        base.model, alias="x", connection="y", capabilities=msgspec.structs.replace(COMPLETES, input_price=1)
    )
    elsewhere = Connection(name="y", provider="openai-compatible", base_url="http://there", api_key_env="K")
    assert Endpoint(model=cheaper, connection=elsewhere).digest == base.digest
    other = with_fields(base.model, served_model_id="k")
    assert Endpoint(model=other, connection=HERE).digest != base.digest


def test_other_events_change_nothing() -> None:
    assert providers.evolve(Providers(), Event()) == Providers()


def test_events_have_a_stream_a_subject() -> None:
    streams = [event.stream for event in decided(WHOLE, Providers())]
    assert streams == [
        "connection:here",
        "model:world",
        "model:judge",
        "model:embed",
        "role:world_model",
        "role:judge",
        "role:embedder",
    ]
