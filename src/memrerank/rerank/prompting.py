"""The question that is put to a language model as a judge.

Query, memory and product texts are other people's words. `plain` makes each of them one line of
text that cannot leave its field: no tag, no turn of a chat, no label. What remains is prose. A
product can still praise itself, and the system prompt tells the judge to read it as data.
"""

import re
import unicodedata
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path

from memrerank.errors import ConfigError
from memrerank.schema import Comparison, Memory, Product, Question
from memrerank.storage import fingerprint
from memrerank.templates import load_template

LABELS = "ABCDEFGHIJKLMNOPQRST"
PROMPT_FOLDER = Path(__file__).parent / "prompts"
CACHED_TEXTS = 200_000  # escaped texts that are kept: products come up again and again

# Of every kind of character that escaping looks at.
PROBE = 'A b <x> & "q" [I] {j} ### System: \u200bﬁ Ⓑ \x07 ‹/y› &lt; \n C. 5 < 6'

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
_LONG = re.compile(r"(\S{60})\S+")  # longer than words are: a way to fill the prompt
_RULE = re.compile(r"([^\w\s])\1{2,}")  # ###, ```, -----: marks of structure
_TURN = re.compile(r"(?i)\b(system|user|assistant|human|developer|tool|answer|instructions?)\s*:")
_LABEL = re.compile(rf"(?<![^\W_])[{LABELS}](?![^\W_])")  # a letter standing alone
_BRACKETS = str.maketrans({"[": "(", "]": ")", "{": "(", "}": ")"})  # [INST], {{ }}
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@lru_cache(maxsize=CACHED_TEXTS)
def plain(text: str, labels: str = LABELS[:5]) -> str:
    """Untrusted text as one line that can be put between tags.

    Compatibility forms are folded (NFKC); characters that do not show are dropped; brackets
    become parentheses; marks repeated three times and more are taken once; words longer than 60
    characters are cut; a colon after the name of a chat role becomes a dash; `&`, `<` and `>` are
    escaped; and a letter of `labels` that stands alone becomes small, since labels are capitals.
    """
    text = unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)
    text = _SPACE.sub(" ", _INVISIBLE.sub("", text))
    text = "".join(c for c in text if unicodedata.category(c) not in _UNSEEN)
    text = _RULE.sub(r"\1", text.translate(_BRACKETS))
    text = _LONG.sub(r"\1…", text)
    text = _TURN.sub(r"\1 -", text)
    text = _LABEL.sub(lambda found: _unlabelled(found.group(), labels), text)
    return text.strip().translate(_MARKUP)


def _unlabelled(letter: str, labels: str) -> str:
    return letter.lower() if letter in labels else letter


@dataclass(frozen=True, slots=True)
class SetwisePrompt:
    """A rendered question. The user's message is `shared` followed by `rest`."""

    system: str
    shared: str  # the same for all comparisons of one query with one memory
    rest: str  # the candidates and the question
    labels: str  # of the candidates, in their order

    @property
    def messages(self) -> list[dict[str, str]]:
        """As chat messages."""
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.shared + self.rest},
        ]


def setwise_prompt(
    comparison: Comparison,
    question: Question = Question.choose,
    *,
    prompt: str = "setwise",
    structured: bool = False,
) -> SetwisePrompt:
    """The question in words, the candidates labelled in their order.

    Without a memory it says nothing of one (paper: the no-memory baseline).

    Args:
        question: `order` asks for all labels, anything else for one.
        prompt: the template's name, see `prompt_path`.
        structured: whether the answer is to be JSON.

    Raises:
        ConfigError: there are more candidates than labels, or no such template.
    """
    count = len(comparison.candidates)
    if count > len(LABELS):
        raise ConfigError(
            f"a comparison of {count} products: a language model as a judge takes at most "
            f"{len(LABELS)}; lower ranking.set_size"
        )
    labels = LABELS[:count]
    texts = [plain(product.text, labels) for product in comparison.candidates]
    values = {
        "query": plain(comparison.query, labels),
        "within": plain(comparison.memory.within, labels),
        "cross": plain(comparison.memory.cross, labels),
        "products": list(zip(labels, texts, strict=True)),
        "labels": list(labels),
        "order": question is Question.order,
        "structured": structured,
    }
    template = load_template(prompt_path(prompt))

    def render(block: str) -> str:
        return "".join(template.blocks[block](template.new_context(dict(values)))).strip()

    return SetwisePrompt(render("system"), render("shared") + "\n", render("rest"), labels)


def setwise_messages(comparison: Comparison) -> list[dict[str, str]]:
    """The chat messages of the default question."""
    return setwise_prompt(comparison).messages


def prompt_path(name: str) -> Path:
    """The file of a prompt in `rerank/prompts/`.

    Raises:
        ConfigError: there is none of that name; the message lists those there are.
    """
    path = PROMPT_FOLDER / f"{name}.jinja"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in PROMPT_FOLDER.glob("*.jinja")))
        raise ConfigError(f"reranker.prompt={name}: no such prompt; known: {known}")
    return path


@cache
def prompt_version(name: str) -> str:
    """A hash (16 hex digits) of what a prompt makes of a probe full of odd characters.

    It changes when judges are shown something else, by the template or by the escaping, and not
    when a comment does: recorded answers belong to it.
    """
    memories = (Memory(), Memory(PROBE), Memory(PROBE, PROBE))
    product = Product("p", PROBE, PROBE, "c")
    rendered = [
        asdict(
            setwise_prompt(
                Comparison("q", PROBE, memory, (product,) * count),
                question,
                prompt=name,
                structured=structured,
            )
        )
        for memory in memories
        for count in (2, 5)
        for question in (Question.choose, Question.order)
        for structured in (False, True)
    ]
    return fingerprint(rendered)[:16]
