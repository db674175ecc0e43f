"""The file, checked and frozen; the only reader of the environment.

What reads and checks the file is imported when it is first asked for: a command that only has to
know which home is meant should not wait for every rule of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.config.errors import ConfigError
from holdfast.config.home import prepare_home, resolve_home, shared_folder

if TYPE_CHECKING:
    from holdfast.config.loading import Config, load, load_settings
    from holdfast.config.views import Shown, schema, show

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

_LATER = {
    "Config": "loading",
    "load": "loading",
    "load_settings": "loading",
    "Shown": "showing",
    "schema": "showing",
    "show": "showing",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = vars(import_module(f"{__name__}.{_LATER[name]}"))[name]
    globals()[name] = found  # asked for here no more
    return found
