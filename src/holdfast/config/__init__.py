"""The configuration, checked and frozen. Only this package reads the environment.

The loader is imported on first use: a command that only needs the home does not wait for every
rule.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.config.errors import ConfigError
from holdfast.config.home import prepare_home, resolve_home, shared_state_dir

if TYPE_CHECKING:
    from holdfast.config.loader import Config, load, load_settings
    from holdfast.config.views import EffectiveKey, json_schema, list_keys

__all__ = [
    "Config",
    "ConfigError",
    "EffectiveKey",
    "json_schema",
    "list_keys",
    "load",
    "load_settings",
    "prepare_home",
    "resolve_home",
    "shared_state_dir",
]

_LAZY = {
    "Config": "loader",
    "load": "loader",
    "load_settings": "loader",
    "EffectiveKey": "views",
    "json_schema": "views",
    "list_keys": "views",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = vars(import_module(f"{__name__}.{_LAZY[name]}"))[name]
    globals()[name] = found  # found without this function from now on
    return found
