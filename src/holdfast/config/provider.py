"""The provider where the settings name none: whose key is in the environment."""

from collections.abc import Mapping

from holdfast.config.draft import Draft
from holdfast.core.settings import KEY_VARIABLES, Provider


def find_provider(draft: Draft, variables: Mapping[str, str]) -> None:
    """Put a provider in place of "auto" where one can be told, and a reference to its key where
    none is written.

    An address of one's own is a server of one's own. What is left as "auto" is for whoever can
    ask the machine. The draft is changed, so that `config show` says what was found, and where.
    """
    model = draft.tree.get("model", {})
    wanted, key = model.get("provider", Provider.AUTO), model.get("api_key", "")
    if model.get("base_url"):
        if wanted == Provider.AUTO:
            origin = draft.where(("model", "base_url"))
            draft.put(("model", "provider"), Provider.LOCAL.value, origin=origin)
        return
    for provider, name in KEY_VARIABLES.items():
        there = key == f"env:{name}" or (not key and variables.get(name, "").strip())
        if wanted in (Provider.AUTO, provider) and there:
            origin = f"the variable {name}"
            if wanted == Provider.AUTO:
                draft.put(("model", "provider"), provider.value, origin=origin)
            if not key:
                draft.put(("model", "api_key"), f"env:{name}", origin=origin)
            return
