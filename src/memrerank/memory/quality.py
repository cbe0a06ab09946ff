"""The deterministic quality of a memory: the smaller term of the reward (paper: it rewards a
non-empty within-category memory and penalises malformed tags, repetition, overlong output,
placeholders and unsupported evidence-like content). It regularises; utility decides.

The paper gives neither formulas nor weights: those below are our choice.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from memrerank.memory.parsing import ParsedMemory
from memrerank.schema import History, Target

FLAWS_AT_WORST = 3  # so many flaws, or more, are the full format penalty
NGRAM = 3  # words; memories that repeat themselves repeat phrases, not only words
SUPPORT = 0.5  # share of a claim's words that one purchase must contain

PLACEHOLDER_WORD = re.compile(
    "n|a|na|none|null|nil|nothing|no|not|unknown|available|applicable|preferences?|information|"
    "data|specified|provided|found|known|empty|placeholder|tbd|todo"
)
STOP_WORDS = frozenset({"a", "an", "and", "by", "for", "from", "in", "of", "on", "the", "with"})

_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”')
_BRACKETED = re.compile(r"\s*(\[.*\]|\{.*\}|\(.*\))\s*", re.DOTALL)


@dataclass(frozen=True)
class QualitySettings:
    """Weights of the components (all our choice) and the length that is free.

    `within` weighs the reward, the others weigh penalties.
    """

    within: float = 1.0
    format: float = 0.3
    repetition: float = 0.2
    length: float = 0.2
    placeholder: float = 0.1
    evidence: float = 0.2
    max_words: int = 120  # words of the whole output, evidence included


def memory_quality(
    parsed: ParsedMemory,
    raw_words: int,
    history: History,
    target: Target,
    settings: QualitySettings,
) -> dict[str, float]:
    """The components, each in [0, 1], and "quality", their weighted sum in [-1, 1].

    `raw_words` is the length of the extractor's text before parsing, in words. quality =
    (w_within * within - sum of w_k * penalty_k) / max(w_within, sum of w_k); 0 if all weights
    are 0.
    """
    memory = parsed.memory
    fields = [memory.within, memory.cross] if target is Target.wc else [memory.within]
    reward = float(bool(memory.within) and not is_placeholder(memory.within))
    penalties = {
        "format": min(1.0, len(memory.flaws) / FLAWS_AT_WORST),
        "repetition": repetition(memory.text),
        "length": overlength(raw_words, settings.max_words),
        "placeholder": sum(map(is_placeholder, fields)) / len(fields),
        "evidence": unsupported(_claims(parsed), history),
    }
    weights = {name: float(getattr(settings, name)) for name in penalties}
    scale = max(settings.within, sum(weights.values()))
    balance = settings.within * reward - sum(weights[k] * penalties[k] for k in penalties)
    return {"within": reward, **penalties, "quality": balance / scale if scale > 0 else 0.0}


def is_placeholder(text: str) -> bool:
    """Whether a field stands for "nothing to say": "N/A", "none", "...", "[preferences]".

    True for text without any word, text of PLACEHOLDER_WORDs alone, and text that is one
    bracket. An empty field is no placeholder: it is just empty.
    """
    if not text.strip():
        return False
    words = _words(text)
    return all(PLACEHOLDER_WORD.fullmatch(word) for word in words) or bool(
        _BRACKETED.fullmatch(text)
    )


def repetition(text: str) -> float:
    """1 - distinct / all word n-grams (n = 3, or all words of a shorter text); 0 when empty."""
    words = _words(text)
    if not words:
        return 0.0
    size = min(NGRAM, len(words))
    ngrams = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return 1.0 - len(set(ngrams)) / len(ngrams)


def overlength(words: int, max_words: int) -> float:
    """0 up to `max_words`, then linear to 1 at twice as many."""
    return min(1.0, max(0.0, (words - max_words) / max(1, max_words)))


def unsupported(claims: Sequence[str], history: History) -> float:
    """The share of claims that no single purchase of the history supports; 0 without claims.

    A purchase supports a claim when its text has at least half of the claim's distinct words,
    stop words aside. A claim without words is unsupported.
    """
    if not claims:
        return 0.0
    purchases = [_word_set(p.product.text) for p in (*history.within, *history.cross)]
    return sum(not _supported(claim, purchases) for claim in claims) / len(claims)


def _supported(claim: str, purchases: Sequence[frozenset[str]]) -> bool:
    words = _word_set(claim)
    return bool(words) and any(len(words & text) >= SUPPORT * len(words) for text in purchases)


def _claims(parsed: ParsedMemory) -> list[str]:
    """What a memory presents as fact: evidence items, and phrases in double quotes."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(parsed.memory.text)]
    return [*parsed.evidence, *quoted]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=16384)  # the same purchases are asked about for every rollout
def _word_set(text: str) -> frozenset[str]:
    return frozenset(_words(text)) - STOP_WORDS
