"""Fitness: whether a gateway could start here, found out without starting one."""

import tempfile
from importlib import import_module
from pathlib import Path

from holdfast.agent.memory.providers import check_providers
from holdfast.config import Config
from holdfast.core.config.settings import Provider, SandboxMode
from holdfast.core.errors import HoldfastError
from holdfast.models.voices import model_targets
from holdfast.runner.sandbox import make_plan
from holdfast.store.sqlite.inspection import check_header
from holdfast.store.sqlite.schema import load_migrations
from holdfast.system.paths import Paths


class CannotStart(HoldfastError):
    """A gateway would not start; why, and what to do."""


def check_can_start(config: Config, *, schema: int = 0) -> None:
    """Raises what a start would raise. Nothing is written, locked or connected to.

    `schema` is the version of the store's tables as the gateway that runs knows it: what it wrote
    last may still stand in the log beside the file, where only SQLite would find it.
    """
    import_module("holdfast.service.main")  # and with it all that a start imports
    known = len(load_migrations())
    if schema > known:
        raise CannotStart(
            f"the store of {config.home} has schema version {schema}, and this installation knows "
            f"versions up to {known}. Install the Holdfast that wrote it, or a newer one."
        )
    check_header(Paths(config.home).db, known=known, vfs=None)
    settings = config.settings
    if settings.model.provider is not Provider.AUTO:
        model_targets(settings.model, secrets=config.secrets)
    check_providers(settings.memory.providers)
    if settings.runner.sandbox is SandboxMode.REQUIRED:
        with tempfile.TemporaryDirectory(prefix="holdfast-check-") as folder:
            make_plan(settings.runner, runs=Path(folder))
