"""How names of hosts are looked up: by the system, whatever is installed beside us."""

import sys
from importlib import import_module

_LIBRARY = "aiohttp"
_DNS_LIBRARY = "aiodns"


def import_aiohttp_without_aiodns() -> None:
    """Import aiohttp as if there were no aiodns; where aiohttp is imported already, nothing.

    aiohttp takes aiodns in place of the system's own lookup wherever it finds it, and slixmpp
    brings it along: with a door for XMPP installed, every other door and the model would be looked
    up in another way, which goes past the name services that the machine is set up with. It would
    be imported by every start besides, for a twentieth of its time.
    slixmpp itself, which needs records that the system's lookup does not have, finds it as ever.
    """
    if _LIBRARY in sys.modules or _DNS_LIBRARY in sys.modules:
        import_module(_LIBRARY)
        return
    # None is how the import system is told that there is no such module.
    sys.modules[_DNS_LIBRARY] = None  # type: ignore[assignment]
    try:
        import_module(_LIBRARY)
    finally:
        del sys.modules[_DNS_LIBRARY]
