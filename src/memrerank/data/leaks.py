"""Leak check: does a query still tell which product its shopper bought, or quote their review?

Two signs are looked for. A query that holds a distinctive word of the positive's title names the
product rather than the wish: the word is rare among the titles of the corpus, or mixes letters and
digits as model numbers do. A query that repeats a long run of words of the review was copied from
it. Both are compared as words alone: case, punctuation, HTML and apostrophes do not count.

The signs are no proof. A well-known brand is too frequent to be distinctive, and a rare word may
belong to the wish.
"""

import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

SHARE = 1e-4  # of the corpus titles: a word in no more of them is distinctive; our choice
MODEL_FACTOR = 10  # a word of letters and digits may be in so many times more; our choice
MIN_LETTERS = 3  # shorter title words are not looked at; our choice
RUN_WORDS = 6  # consecutive words of a review that count as a quote; our choice

_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^<>]{0,100}>")
_APOSTROPHES = str.maketrans("", "", "'’ʼ`´")
_MEASURE = re.compile(r"\d+[^\W\d_]+")  # 128gb, 12oz, 5inch: a wish, not a model number


@dataclass(frozen=True, slots=True)
class LeakInput:
    """A query and what it must not tell."""

    query_id: str
    text: str
    title: str  # of the positive
    review: str | None  # that the query was written from; None: unknown


@dataclass(frozen=True, slots=True)
class Leak:
    """What one query tells."""

    query_id: str
    found: tuple[str, ...]  # words or runs of words, in the query's order


@dataclass(frozen=True, slots=True)
class TitleFrequencies:
    """In how many titles of a corpus words occur."""

    titles: int
    words: Counter[str]


@dataclass(frozen=True, slots=True)
class LeakReport:
    """The queries that leak, in the order of the input."""

    checked: int
    with_title_words: tuple[Leak, ...]
    with_review_runs: tuple[Leak, ...]
    counts: dict[str, int]  # checked, without_review, title_words, review_runs, either

    def share(self, name: str) -> float:
        """A count as a share of the queries checked; 0 where none was."""
        return self.counts[name] / self.checked if self.checked else 0.0


def check_leaks(
    rows: Sequence[LeakInput],
    frequencies: TitleFrequencies,
    *,
    share: float = SHARE,
    run_words: int = RUN_WORDS,
) -> LeakReport:
    """Which queries hold distinctive title words or long runs of their review.

    Args:
        rows: one per query.
        frequencies: of the corpus titles; of the words in `shared_words(rows)` is enough.
        share: of the titles; a word in at most max(1, share * titles) of them is distinctive.
        run_words: the least length of a run.
    """
    words = [Leak(row.query_id, title_leaks(row, frequencies, share)) for row in rows]
    runs = [Leak(row.query_id, common_runs(row.text, row.review, run_words)) for row in rows]
    with_words = tuple(leak for leak in words if leak.found)
    with_runs = tuple(leak for leak in runs if leak.found)
    counts = {
        "checked": len(rows),
        "without_review": sum(not words_of(row.review or "") for row in rows),
        "title_words": len(with_words),
        "review_runs": len(with_runs),
        "either": len({leak.query_id for leak in (*with_words, *with_runs)}),
    }
    return LeakReport(len(rows), with_words, with_runs, counts)


def title_leaks(row: LeakInput, frequencies: TitleFrequencies, share: float) -> tuple[str, ...]:
    """The distinctive words of the positive's title that the query holds, in the query's order."""
    ceiling = max(1.0, share * frequencies.titles)
    return tuple(
        word
        for word in dict.fromkeys(_shared(row))
        if frequencies.words[word] <= ceiling * (MODEL_FACTOR if is_model_number(word) else 1)
    )


def is_model_number(word: str) -> bool:
    """Whether a word mixes letters and digits and is no measure such as `128gb`."""
    mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return mixed and _MEASURE.fullmatch(word) is None


def common_runs(text: str, review: str | None, run_words: int) -> tuple[str, ...]:
    """The runs of at least `run_words` words that a text shares with a review.

    Taken from left to right in the text, each as long as it goes; they do not overlap there.
    """
    query, source = words_of(text), words_of(review or "")
    starts: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place in range(len(source) - run_words + 1):
        starts[tuple(source[place : place + run_words])].append(place)
    runs: list[str] = []
    place = 0
    while place + run_words <= len(query):
        at = starts.get(tuple(query[place : place + run_words]), [])
        length = max((_common_length(query[place:], source[start:]) for start in at), default=0)
        if length:
            runs.append(" ".join(query[place : place + length]))
        place += max(length, 1)
    return tuple(runs)


def shared_words(rows: Iterable[LeakInput]) -> frozenset[str]:
    """The title words that queries hold: all whose frequency the check will want to know."""
    return frozenset(word for row in rows for word in _shared(row))


def title_frequencies(
    titles: Iterable[str], only: Collection[str] | None = None
) -> TitleFrequencies:
    """Counts, in one pass, in how many titles each word occurs.

    Args:
        titles: of the corpus, streamed.
        only: the words to count; None counts all, in memory for each distinct word.
    """
    wanted = None if only is None else frozenset(only)
    counter: Counter[str] = Counter()
    number = 0
    for title in titles:
        number += 1
        words = set(words_of(title))
        counter.update(words if wanted is None else words & wanted)
    return TitleFrequencies(number, counter)


def words_of(text: str) -> list[str]:
    """Words as they are compared: small letters and digits, without HTML and apostrophes."""
    if not text.isascii() or "&" in text:
        text = unicodedata.normalize("NFKC", html.unescape(text))
    if "<" in text:
        text = _TAG.sub(" ", text)
    return _WORD.findall(text.casefold().translate(_APOSTROPHES))


def _shared(row: LeakInput) -> Iterator[str]:
    """The words of the query, in order, that its positive's title holds and that are not short."""
    title = set(words_of(row.title))
    return (word for word in words_of(row.text) if word in title and len(word) >= MIN_LETTERS)


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words two lists have in common from their start."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))
