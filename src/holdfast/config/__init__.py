"""The file, checked and frozen; the only reader of the environment.

What reads and checks the file is imported when it is first asked for: a command that only has to
know which home is meant should not wait for every rule of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.config.errors import ConfigError
from holdfast.config.home import prepare_home, resolve_home, shared_state_dir

if TYPE_CHECKING:
    from holdfast.config.loading import Config, load, load_settings
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
    "Config": "loading",
    "load": "loading",
    "load_settings": "loading",
    "EffectiveKey": "views",
    "json_schema": "views",
    "list_keys": "views",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = vars(import_module(f"{__name__}.{_LAZY[name]}"))[name]
    globals()[name] = found  # asked for here no more
    return found
