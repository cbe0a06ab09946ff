"""The question that is put to a language model as a judge, and how its answer is read.

Query, memory and product texts are other people's words. `plain` makes each of them one line of
text that cannot leave its field: no tag, no turn of a chat, no label. What remains is prose. A
product can still praise itself, and the system prompt tells the judge to read it as data.
"""

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memrerank.errors import ConfigError
from memrerank.schema import Comparison
from memrerank.templates import load_template

LABELS = "ABCDE"
TEMPLATE = Path(__file__).parent / "prompts" / "setwise.jinja"

# Characters that look like a delimiter or a label to a reader but are not that character.
_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("‹〈⟨❮", "<"),
        **dict.fromkeys("›〉⟩❯", ">"),
        **{
            chr(first + place): label
            for first in (0x1F150, 0x1F170, 0x1F1E6)  # white on black, and regional indicators
            for place, label in enumerate(LABELS)
        },
        **dict(zip("АВСЕΑΒΕ", "ABCEABE", strict=True)),  # Cyrillic and Greek capitals
    }
)
_UNSEEN = {
    "Cc",
    "Cf",
    "Cs",
    "Co",
    "Cn",
}  # control, format (bidirectional, zero width), no character
# Selectors and fillers that count as marks or letters and still do not show.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"([^\w\s])\1{2,}")  # ###, ```, -----: marks of structure
_TURN = re.compile(r"(?i)\b(system|user|assistant|human|developer|tool|answer|instructions?)\s*:")
_LABEL = re.compile(rf"(?<![^\W_])[{LABELS}](?![^\W_])")  # a label standing alone
_BRACKETS = str.maketrans({"[": "(", "]": ")", "{": "(", "}": ")"})  # [INST], {{ }}
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_ANSWER = re.compile(
    r"\W*(?:(?i:the\s+)?(?i:final\s+)?(?i:answer|choice|label|product)(?i:\s+is)?\W+)?([A-Z])\W*"
)


def plain(text: str) -> str:
    """Untrusted text as one line that can be put between tags.

    Compatibility forms are folded (NFKC); characters that do not show are dropped; brackets
    become parentheses; a colon after the name of a chat role becomes a dash; `&`, `<` and `>` are
    escaped; and a letter A to E that stands alone becomes small, since labels are capitals.
    """
    text = unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)
    text = _SPACE.sub(" ", _INVISIBLE.sub("", text))
    text = "".join(c for c in text if unicodedata.category(c) not in _UNSEEN)
    text = _RULE.sub(r"\1", text.translate(_BRACKETS))
    text = _TURN.sub(r"\1 -", text)
    text = _LABEL.sub(lambda label: label.group().lower(), text)
    return text.strip().translate(_MARKUP)


def setwise_messages(comparison: Comparison) -> list[dict[str, str]]:
    """The chat messages that ask for one of the candidates, labelled in their order.

    Without a memory the question says nothing of one (paper: the no-memory baseline).

    Raises:
        ConfigError: there are more candidates than labels.
    """
    texts = [plain(product.text) for product in comparison.candidates]
    if len(texts) > len(LABELS):
        raise ConfigError(
            f"a comparison of {len(texts)} products: a language model as a judge takes at most "
            f"{len(LABELS)}; lower ranking.set_size"
        )
    labels = LABELS[: len(texts)]
    values = {
        "query": plain(comparison.query),
        "within": plain(comparison.memory.within),
        "cross": plain(comparison.memory.cross),
        "products": [
            (c, plain(p.text)) for c, p in zip(labels, comparison.candidates, strict=True)
        ],
        "labels": ", ".join(labels),
    }
    return [
        {"role": "system", "content": _render("system", values)},
        {"role": "user", "content": _render("user", values)},
    ]


def _render(block: str, values: Mapping[str, Any]) -> str:
    template = load_template(TEMPLATE)
    return "".join(template.blocks[block](template.new_context(dict(values)))).strip()


def parse_choice(text: str, candidates: int) -> int | None:
    """The index that an answer names; None unless the answer is one valid label and no more.

    Punctuation around the label and a lead-in such as "Answer:" are allowed; nothing else is.
    """
    found = _ANSWER.fullmatch(text)
    index = LABELS.find(found.group(1)) if found else -1
    return index if 0 <= index < candidates else None
