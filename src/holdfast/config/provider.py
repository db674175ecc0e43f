"""The provider where the settings name none: whose key is in the environment."""

from collections.abc import Mapping

from holdfast.config.draft import RawConfig
from holdfast.core.config.settings import KEY_VARIABLES, Provider


def detect_provider(raw: RawConfig, variables: Mapping[str, str]) -> list[str]:
    """Put a provider in place of "auto" where one can be told, and a reference to its key where
    none is written.

    An address of one's own is a server of one's own. What is left as "auto" is for whoever can
    ask the machine. The draft is changed, so that `config show` says what was found, and where.
    Returns what a person should know of it.
    """
    model = raw.tree.get("model", {})
    wanted, key = model.get("provider", Provider.AUTO), model.get("api_key", "")
    if model.get("base_url"):
        if wanted == Provider.AUTO:
            origin = raw.location_of(("model", "base_url"))
            raw.set(("model", "provider"), Provider.LOCAL.value, origin=origin)
        return []
    told: list[str] = []
    for provider, name in KEY_VARIABLES.items():
        there = key == f"env:{name}" or (not key and variables.get(name, "").strip())
        if wanted not in (Provider.AUTO, provider) or not there:
            continue
        elsewhere = name.replace("_API_KEY", "_BASE_URL")
        if wanted == Provider.AUTO and not key and variables.get(elsewhere):
            # A key goes to the address it was given for, and that may be this very gateway.
            told.append(
                f"{name} is not used: {elsewhere} says that it is for another address; to use "
                "both, set provider, base_url and api_key under [model]"
            )
            continue
        origin = f"the variable {name}"
        if wanted == Provider.AUTO:
            raw.set(("model", "provider"), provider.value, origin=origin)
        if not key:
            raw.set(("model", "api_key"), f"env:{name}", origin=origin)
        break
    return told
