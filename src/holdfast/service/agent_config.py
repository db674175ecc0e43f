"""Builds the agent configuration from the settings: model, API keys and tools."""

from collections.abc import Iterable

import msgspec

from holdfast.config import Config
from holdfast.core.config.settings import ModelSettings, Settings
from holdfast.core.ports.platform import Platform
from holdfast.core.secrets import Secret
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.models.fallback import ModelLeases
from holdfast.models.pool import ModelPool
from holdfast.models.selection import SelectedModel, select_model
from holdfast.service.toolsets import ToolsetBuilder

_FALLBACK_PREFIX = "model.fallbacks["


class AgentConfigBuilder:
    """Owns which model is in force: where nothing changed that it was chosen by, it is not chosen
    again, or a server that happens to be away would hand every chat to another model."""

    def __init__(
        self,
        pool: ModelPool,
        toolsets: ToolsetBuilder,
        *,
        token: Secret,
        model: SelectedModel,
        model_settings: ModelSettings,
    ) -> None:
        self._pool = pool
        self._toolsets = toolsets
        self._token = token
        self._model = model
        self._model_settings = model_settings

    async def model_for(self, config: Config) -> SelectedModel:
        if config.settings.model == self._model_settings:
            return self._model
        return await select_configured_model(config)

    def activate(self, config: AgentConfig, *, model_settings: ModelSettings) -> None:
        """This one is in force now; what was chosen for another that came to nothing is not."""
        self._model = SelectedModel(settings=config.settings.model, choice=config.model)
        self._model_settings = model_settings

    def build(
        self,
        config: Config,
        *,
        settings: Settings,
        model: SelectedModel,
        platforms: Iterable[Platform],
    ) -> AgentConfig:
        """`settings` have the values of the start for keys that need a restart. Raises
        `InvalidTarget` for a model that cannot be called."""
        platforms_list = list(platforms)
        settings = msgspec.structs.replace(settings, model=model.settings)
        leases = ModelLeases(model.settings, self._pool, secrets=config.secrets)
        return AgentConfig(
            settings=settings,
            lease=leases.lease,
            model=model.choice,
            api_key=config.secret("model.api_key"),
            fallback_keys=[
                each for key, each in config.secrets.items() if key.startswith(_FALLBACK_PREFIX)
            ],
            toolbox=self._toolsets.build_toolbox(
                settings,
                sends=any(not each.capabilities.fetchable for each in platforms_list),
                sends_files=any(each.capabilities.attachments_out for each in platforms_list),
            ),
            secrets=[*config.secrets.values(), self._token],
        )


async def select_configured_model(config: Config) -> SelectedModel:
    """The model that answers, chosen where the settings leave that open."""
    origin = config.origins.get("model.provider", "")
    return await select_model(config.settings.model, origin=origin)
