"""The file, checked and frozen; the only reader of the environment."""

from holdfast.config.error import ConfigError
from holdfast.config.home import prepare_home, resolve_home, shared_folder
from holdfast.config.load import Config, load, load_settings
from holdfast.config.show import Shown, schema, show

__all__ = [
    "Config",
    "ConfigError",
    "Shown",
    "load",
    "load_settings",
    "prepare_home",
    "resolve_home",
    "schema",
    "shared_folder",
    "show",
]
