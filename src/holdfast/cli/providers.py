"""The providers as a newcomer meets them: who they are, and where a key is made."""

from dataclasses import dataclass

from holdfast.core.config.settings import KEY_VARIABLES, Provider


@dataclass(frozen=True, kw_only=True)
class ProviderInfo:
    provider: Provider
    title: str
    key_page: str = ""  # where a key is made; "": none is needed
    default_base_url: str = ""  # what a server of one's own usually has

    @property
    def key_variable(self) -> str:
        return KEY_VARIABLES.get(self.provider, "")


PROVIDERS = (
    ProviderInfo(
        provider=Provider.ANTHROPIC,
        title="Anthropic (Claude)",
        key_page="https://console.anthropic.com/settings/keys",
    ),
    ProviderInfo(
        provider=Provider.OPENAI,
        title="OpenAI (GPT)",
        key_page="https://platform.openai.com/api-keys",
    ),
    ProviderInfo(
        provider=Provider.OPENROUTER,
        title="OpenRouter (models of many makers, one key)",
        key_page="https://openrouter.ai/settings/keys",
    ),
    ProviderInfo(
        provider=Provider.LOCAL,
        title="a server of your own: Ollama, llama.cpp, LM Studio, vLLM",
        default_base_url="http://127.0.0.1:11434/v1",
    ),
    ProviderInfo(
        provider=Provider.DEMO, title="none yet: the demo, which needs no key and is no AI"
    ),
)


def find_provider(provider: str) -> ProviderInfo:
    return next(offer for offer in PROVIDERS if offer.provider == provider)
