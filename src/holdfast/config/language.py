"""The language of the command line, found without loading the configuration.

Every call of `holdfast` passes through here: keep the imports light.
"""

import os
from collections.abc import Mapping

from holdfast.config.errors import ConfigError
from holdfast.config.home import resolve_home

_CONFIG_FILE = "holdfast.toml"  # as in core.config.versions, which imports msgspec
_LANGUAGE_VARIABLE = "HOLDFAST_GATEWAY_LANGUAGE"
_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set applies


def preferred_language(
    home_option: str | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """`gateway.language`, else the locale of the shell, as `de` or `de_DE.UTF-8`; "": none is set.

    An unusable configuration is reported by the command that loads it, not here.
    """
    environ = os.environ if environ is None else environ
    shell = next((environ[name] for name in _LOCALE_VARIABLES if environ.get(name)), "")
    return environ.get(_LANGUAGE_VARIABLE) or _configured_language(home_option, environ) or shell


def _configured_language(home_option: str | None, environ: Mapping[str, str]) -> str:
    try:
        text = (resolve_home(home_option, environ) / _CONFIG_FILE).read_text(encoding="utf-8-sig")
        if "language" not in text:
            return ""
        import tomllib  # noqa: PLC0415 - few files set a language

        gateway = tomllib.loads(text).get("gateway")
    except (ConfigError, OSError, ValueError):
        return ""
    language = gateway.get("language") if isinstance(gateway, dict) else None
    return language if isinstance(language, str) else ""
