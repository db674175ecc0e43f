"""Known models: how much each can read at once, and which cannot see pictures."""

import re
from collections.abc import Sequence

from holdfast.core.config.settings import VisionMode

DEFAULT_CONTEXT_WINDOW = 128_000

# The first pattern that is found in a name counts, so the special stand before the general. Where
# a vendor sells a larger window by a switch of its own, the ordinary one is meant.
_WINDOWS: Sequence[tuple[str, int]] = (
    (r"smollm2", 8_192),
    (r"gpt-3\.5", 16_385),
    (r"gpt-4-turbo|gpt-4o|chatgpt-4o", 128_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4(?![.\w])", 8_192),
    (r"gpt-5-chat", 128_000),
    (r"gpt-5", 272_000),
    (r"gpt-oss", 131_072),
    (r"o1-mini|o1-preview", 128_000),
    (r"\bo[134](?![\w.])|\bo[134]-", 200_000),
    (r"claude", 200_000),
    (r"gemini-1\.5-pro", 2_000_000),
    (r"gemini", 1_000_000),
    (r"gemma-?2|gemma:", 8_192),
    (r"llama-?3(?![.\d])", 8_192),
    (r"llama-?2", 4_096),
    (r"mixtral|mistral-7b", 32_768),
    (r"kimi-k2|grok-4", 256_000),
)
_TEXT_ONLY = (
    r"smollm2|gpt-3\.5|gpt-4-32k|gpt-4(?![.\w-])|gpt-oss|o1-mini|o1-preview|o3-mini|deepseek"
    r"|codestral|mixtral|mistral-7b|llama-?2|llama-?3(?:\.[013])?(?![.\d])(?!.*vision)|qwen[23]?-?coder"
    r"|kimi-k2|glm-4\.[56](?!v)|phi-?3(?!.*vision)"
)


def context_window(name: str) -> int:
    """Tokens that the model of this name takes, question and answer together."""
    lower = name.lower()
    for pattern, window in _WINDOWS:
        if re.search(pattern, lower):
            return window
    return DEFAULT_CONTEXT_WINDOW


def accepts_images(name: str, configured: VisionMode = VisionMode.AUTO) -> bool:
    """Whether pictures are shown to it. A name nobody knows sees: most do, and one that does
    not says so, while a picture that is kept back is never missed."""
    if configured is not VisionMode.AUTO:
        return configured is VisionMode.YES
    return re.search(_TEXT_ONLY, name.lower()) is None
