"""Names of mails: of those that we send, and of the thread that one belongs to."""

import re
from collections.abc import Sequence
from hashlib import blake2b

from holdfast.core.ids import DeliveryId

_NO_THREAD = "0"
_THREAD = re.compile(r"[0-9a-f]{24}")
_OURS = re.compile(r"<hf\.[A-Za-z0-9_.-]+\.([0-9a-f]{24}|0)@(.+)>")


def name_of(delivery_id: DeliveryId, thread: str | None, *, domain: str) -> str:
    """The Message-ID of a delivery, the same in every attempt. It has the thread in it: some
    programs name only the mail that they answer, and not the one that everything began with."""
    delivery = re.sub(r"[^A-Za-z0-9_.-]", "-", delivery_id)
    known = thread if thread and _THREAD.fullmatch(thread) else _NO_THREAD
    return f"<hf.{delivery}.{known}@{domain}>"


def is_ours(name: str, *, domain: str) -> bool:
    found = _OURS.fullmatch(name)
    return found is not None and found[2] == domain


def thread_in(name: str, *, domain: str) -> str | None:
    """The thread that a mail of ours was sent into; None: it is none of ours, or began one."""
    found = _OURS.fullmatch(name)
    if found is None or found[2] != domain or found[1] == _NO_THREAD:
        return None
    return found[1]


def thread_of(name: str, references: Sequence[str], *, domain: str) -> str:
    """Of a mail with that name which refers to these, the oldest of them first."""
    known = (thread_in(each, domain=domain) for each in references)
    return next(filter(None, known), None) or digest(next(iter(references), name))


def digest(*parts: str) -> str:
    said = "\n".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=12).hexdigest()
