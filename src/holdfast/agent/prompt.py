"""The system prompt: built once per session, then frozen and kept with it."""

import hashlib

from holdfast.core.turns.tool import Danger
from holdfast.tools.registry import Toolbox

IDENTITY_PROMPT = """\
You are a capable assistant reached through Holdfast, a gateway that keeps this conversation, \
its terminal and its background processes alive across restarts. Today is {date}.

Do what is asked, then say briefly what you did and what came of it. When you do not know, \
find out or say so; never invent results. Answer in the language you are spoken to in, in \
plain Markdown."""

SANDBOX_PROMPT = """\
Your commands and files live in a workspace of your own (your current directory when you \
begin). The directory and exported variables persist from one command to the next. Start \
anything long-running with the process tool, not with `&`. A result marked as unknown or \
cancelled may have had an effect: look before you repeat it."""


def prompt_fingerprint(*, toolbox: Toolbox, instructions: str) -> str:
    """What the configuration makes of a prompt, as a hash: where it differs, a frozen prompt is
    made anew. The day, the request and what memory had to say are a session's own."""
    made = build_prompt(date="", toolbox=toolbox, instructions=instructions)
    return hashlib.sha256(made.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def build_prompt(
    *, date: str, toolbox: Toolbox, instructions: str, request: str = "", memory: str = ""
) -> str:
    """Small on purpose: every byte of it is sent with every call."""
    parts = [IDENTITY_PROMPT.format(date=date)]
    if any(tool.danger is Danger.CONFINED for tool in toolbox.by_name.values()):
        parts.append(SANDBOX_PROMPT)
    parts.extend(text for text in (instructions.strip(), request.strip(), memory) if text)
    return "\n\n".join(parts)
