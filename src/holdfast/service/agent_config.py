"""Outfitting: of a configuration is made what agents are made of."""

from collections.abc import Iterable

import msgspec

from holdfast.config import Config
from holdfast.core.config.settings import ModelSettings, Settings
from holdfast.core.ports.protocols import Platform
from holdfast.core.secret import Secret
from holdfast.gateway.agents.outfit import Outfit
from holdfast.models.choice import Chosen, choose
from holdfast.models.pool import ModelPool
from holdfast.models.voices import Voices
from holdfast.service.toolsets import Workshop

_SPARE = "model.fallbacks["


class Outfitting:
    """Owns which model is in force: where nothing changed that it was chosen by, it is not chosen
    again, or a server that happens to be away would hand every chat to another model."""

    def __init__(
        self,
        pool: ModelPool,
        workshop: Workshop,
        *,
        token: Secret,
        model: Chosen,
        by: ModelSettings,
    ) -> None:
        self._pool = pool
        self._workshop = workshop
        self._token = token
        self._model = model
        self._chosen_by = by

    async def model_of(self, config: Config) -> Chosen:
        if config.settings.model == self._chosen_by:
            return self._model
        return await chosen(config)

    def keep(self, outfit: Outfit, *, by: ModelSettings) -> None:
        """This one is in force now; what was chosen for another that came to nothing is not."""
        self._model = Chosen(settings=outfit.settings.model, choice=outfit.model)
        self._chosen_by = by

    def outfit(
        self,
        config: Config,
        *,
        settings: Settings,
        model: Chosen,
        platforms: Iterable[Platform],
    ) -> Outfit:
        """`settings` are those of the configuration that can be in force now. Raises `BadTarget`
        for a model that could not be called."""
        doors = list(platforms)
        settings = msgspec.structs.replace(settings, model=model.settings)
        voices = Voices(model.settings, self._pool, secrets=config.secrets)
        return Outfit(
            settings=settings,
            lease=voices.lease,
            model=model.choice,
            api_key=config.secret("model.api_key"),
            spare_keys=[each for key, each in config.secrets.items() if key.startswith(_SPARE)],
            toolbox=self._workshop.toolbox_for(
                settings,
                sends=any(not each.capabilities.fetchable for each in doors),
                sends_files=any(each.capabilities.attachments_out for each in doors),
            ),
            secrets=[*config.secrets.values(), self._token],
        )


async def chosen(config: Config) -> Chosen:
    """The model that answers, chosen where the settings leave that open."""
    origin = config.origins.get("model.provider", "")
    return await choose(config.settings.model, origin=origin)
