"""Histories to extractor prompts.

Templates live in `prompts/<style>/<target>.jinja`; an optional `chat.json` beside them holds a
system message and worked examples, which are rendered with the same template. Product text is
untrusted: markup in it is escaped, chat-control tokens are broken up, and white space is folded,
so that a title can neither close its field nor pose as a turn of the conversation.
"""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateNotFound
from transformers import PreTrainedTokenizerBase

from memrerank.errors import ConfigError
from memrerank.escaping import escape_text
from memrerank.schema import History, Purchase, Target
from memrerank.storage import fingerprint
from memrerank.templates import load_template

PROMPT_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class PromptSettings:
    """How a history becomes a prompt."""

    style: str  # folder under prompts/
    max_purchases: int  # newest purchases shown, of each of within and cross
    max_product_words: int  # words shown of each product (paper: 120)
    max_memory_words: int  # the length that the instructions ask for
    answer_prefix: str = (
        ""  # put in the model's mouth; part of the prompt, read back with the answer
    )


class MemoryPrompt:
    """Renders the extractor's prompt for one target.

    Raises:
        ConfigError: there is no template for the style and target.
    """

    def __init__(self, target: Target, settings: PromptSettings) -> None:
        self.target = target
        self.settings = settings
        name = f"{settings.style}/{target.value}.jinja"
        try:
            self._template = load_template(PROMPT_FOLDER / name)
        except TemplateNotFound as error:
            styles = ", ".join(sorted(p.name for p in PROMPT_FOLDER.iterdir() if p.is_dir()))
            raise ConfigError(
                f"extractor.prompt.style={settings.style}: no template {name}; styles: {styles}"
            ) from error
        self.source = (PROMPT_FOLDER / name).read_text()
        chat = PROMPT_FOLDER / settings.style / "chat.json"
        self._chat: dict[str, Any] = json.loads(chat.read_text()) if chat.exists() else {}

    @cached_property
    def version(self) -> str:
        """Changes with every setting or template change that changes what the model reads."""
        return fingerprint([self.source, self._chat, asdict(self.settings)])[:12]

    def render(self, history: History) -> str:
        """The user turn for one history; purchases newest first."""
        return self._render(
            history.category.replace("_", " "),
            self._products(history.within),
            self._products(history.cross),
        )

    def messages(self, history: History) -> list[dict[str, str]]:
        """The conversation up to the answer: system message, examples, the history."""
        messages = []
        if system := self._chat.get("system"):
            messages.append({"role": "system", "content": system})
        for example in self._chat.get("examples", []):
            question = self._render(example["category"], example["within"], example["cross"])
            answer = example["answer"][self.target.value]
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": answer})
        return [*messages, {"role": "user", "content": self.render(history)}]

    def token_ids(self, history: History, tokenizer: PreTrainedTokenizerBase) -> list[int]:
        """The whole prompt as token ids: chat template, messages, and the answer's prefix."""
        text = str(
            tokenizer.apply_chat_template(
                self.messages(history), tokenize=False, add_generation_prompt=True
            )
        )
        return tokenizer(text + self.settings.answer_prefix, add_special_tokens=False).input_ids

    def _render(self, category: str, within: list[str], cross: list[str]) -> str:
        return self._template.render(
            category=category,
            within=within,
            cross=cross,
            max_words=self.settings.max_memory_words,
        ).strip()

    def _products(self, purchases: tuple[Purchase, ...]) -> list[str]:
        newest = purchases[::-1][: self.settings.max_purchases]
        cap = self.settings.max_product_words
        # Escaped before the cut: what is dropped or turned into a space changes the words.
        return [" ".join(escape_text(p.product.text).split()[:cap]) for p in newest]
