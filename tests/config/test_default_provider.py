"""Without a configured provider, the API keys in the environment select it."""

from pathlib import Path

import pytest

from holdfast.config import Config, load
from holdfast.core.config.settings import Provider

ALL = {
    "ANTHROPIC_API_KEY": "sk-ant-12345678",
    "OPENAI_API_KEY": "sk-oai-12345678",
    "OPENROUTER_API_KEY": "sk-or-12345678",
}


def found(home: Path, toml: str = "", environ: dict[str, str] | None = None) -> Config:
    (home / "holdfast.toml").write_text(toml)
    return load(home, environ or {})


@pytest.mark.parametrize(
    ("without", "provider", "variable"),
    [
        ((), Provider.ANTHROPIC, "ANTHROPIC_API_KEY"),
        (("ANTHROPIC_API_KEY",), Provider.OPENAI, "OPENAI_API_KEY"),
        (("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), Provider.OPENROUTER, "OPENROUTER_API_KEY"),
    ],
)
def test_the_first_key_in_the_environment_selects_the_provider(
    tmp_path: Path, without: tuple[str, ...], provider: Provider, variable: str
) -> None:
    environ = {name: " " if name in without else value for name, value in ALL.items()}
    config = found(tmp_path, environ=environ)
    assert config.settings.model.provider is provider
    assert config.settings.model.api_key == f"env:{variable}"
    secret = config.secret("model.api_key")
    assert secret is not None
    assert secret.reveal() == ALL[variable]
    assert config.origins["model.provider"] == f"the variable {variable}"
    assert ALL[variable] not in repr(config)


def test_a_key_in_the_env_file_counts(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-the-file\n")
    config = found(tmp_path)
    assert config.settings.model.provider is Provider.OPENAI
    assert config.signature != load(tmp_path / "none", {}).signature


@pytest.mark.parametrize(
    ("toml", "provider", "key"),
    [
        ('provider = "demo"', Provider.DEMO, ""),
        ('provider = "openai"', Provider.OPENAI, "env:OPENAI_API_KEY"),
        ('provider = "openai"\nbase_url = "http://127.0.0.1:1/v1"', Provider.OPENAI, ""),
        ('base_url = "http://127.0.0.1:1/v1"', Provider.LOCAL, ""),
        ('api_key = "env:OPENROUTER_API_KEY"', Provider.OPENROUTER, "env:OPENROUTER_API_KEY"),
        ('provider = "anthropic"\napi_key = "env:OPENAI_API_KEY"',
         Provider.ANTHROPIC, "env:OPENAI_API_KEY"),
    ],
)  # fmt: skip
def test_a_configured_provider_overrides_every_key(
    tmp_path: Path, toml: str, provider: Provider, key: str
) -> None:
    model = found(tmp_path, f"[model]\n{toml}\n", ALL).settings.model
    assert (model.provider, model.api_key) == (provider, key)


def test_a_key_that_is_for_another_address_is_not_sent_to_the_providers_own(
    tmp_path: Path,
) -> None:
    environ = {"OPENAI_API_KEY": "sk-12345678", "OPENAI_BASE_URL": "http://127.0.0.1:8787/v1"}
    config = found(tmp_path, environ=environ)
    assert config.settings.model.provider is Provider.AUTO
    assert any("OPENAI_BASE_URL" in warning for warning in config.warnings)
    config = found(tmp_path, environ={**environ, "OPENROUTER_API_KEY": "sk-or-12345678"})
    assert config.settings.model.provider is Provider.OPENROUTER


def test_without_any_key_no_provider_is_selected(tmp_path: Path) -> None:
    config = found(tmp_path, "", {"HOLDFAST_MODEL_DISCOVER": ""})
    assert config.settings.model.provider is Provider.AUTO
    assert config.settings.model.discover == ()
    assert config.secrets == {}
