"""Names of mails: of those that we send, and of the thread that one belongs to."""

import re
from collections.abc import Sequence
from hashlib import blake2b

from holdfast.core.ids import DeliveryId

_NO_THREAD = "0"
_THREAD = re.compile(r"[0-9a-f]{24}")
_OWN_MESSAGE_ID = re.compile(r"<hf\.[A-Za-z0-9_.-]+\.([0-9a-f]{24}|0)@(.+)>")


def message_id_of(delivery_id: DeliveryId, thread_id: str | None, *, domain: str) -> str:
    """The Message-ID of a delivery, the same in every attempt. It has the thread in it: some
    programs name only the mail that they answer, and not the one that everything began with."""
    delivery = re.sub(r"[^A-Za-z0-9_.-]", "-", delivery_id)
    known = thread_id if thread_id and _THREAD.fullmatch(thread_id) else _NO_THREAD
    return f"<hf.{delivery}.{known}@{domain}>"


def is_own_message_id(message_id: str, *, domain: str) -> bool:
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    return found is not None and found[2] == domain


def thread_id_in(message_id: str, *, domain: str) -> str | None:
    """The thread that a mail of ours was sent into; None: it is none of ours, or began one."""
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    if found is None or found[2] != domain or found[1] == _NO_THREAD:
        return None
    return found[1]


def thread_id_for(message_id: str, references: Sequence[str], *, domain: str) -> str:
    """Of a mail with that name which refers to these, the oldest of them first."""
    known = (thread_id_in(each, domain=domain) for each in references)
    return next(filter(None, known), None) or digest(next(iter(references), message_id))


def digest(*parts: str) -> str:
    said = "\n".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=12).hexdigest()
