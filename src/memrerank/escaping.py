"""Other people's words inside a prompt: text that stays text, wherever a prompt puts it."""

import re
import unicodedata

# Format marks (bidirectional, zero width), private and unassigned characters, half surrogates.
_UNSEEN = {"Cf", "Co", "Cn", "Cs"}
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# [INST], <<SYS>>, [SYSTEM_PROMPT], [TOOL_CALLS], [AVAILABLE_TOOLS]: turns of Mistral's chats.
_TURN = re.compile(r"\[(/?(?:INST|SYS|TOOL|AVAILABLE_TOOLS)[^\]]*)\]", re.IGNORECASE)


def escape_text(text: str) -> str:
    """Text that cannot act as markup: no angle brackets, and no characters that hide.

    `<|im_start|>` and its like are chat-control tokens to some tokenizers; without angle brackets
    they are plain text. `[INST]`-style markers lose their brackets. Characters that do not show
    are dropped, control characters become spaces.
    """
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    text = "".join(c for c in text if unicodedata.category(c) not in _UNSEEN)
    text = _TURN.sub(r"(\1)", text.replace("<", "‹").replace(">", "›"))
    return " ".join(text.split())
