"""Queries without what only a review could tell (paper: Amazon-C4's queries are rewritten by an
LLM so that they keep the shopping intent and lose review-specific details).

A query is rewritten from its text and the review that it was written from. The review goes into
this one prompt and nowhere else: `schema.Query` has no place for it, and the rewritten text alone
goes on. Both are other people's words, so neither can leave its field in the prompt.

Rewrites come from a language model (`rewrite_queries`, `data.rewrite=llm`) or from a file
(`read_rewrites`, `data.rewrite=file`), which `write_rewrites` writes.
"""

import html
import json
import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
from tqdm import tqdm

from memrerank.data.readers import Kind, read_rows
from memrerank.errors import DataError, JudgeError
from memrerank.escaping import escape_text
from memrerank.responses import ResponseStore
from memrerank.storage import atomic_path, canonical_json, fingerprint
from memrerank.templates import load_template

log = logging.getLogger(__name__)

TEMPLATE = Path(__file__).parent / "prompts" / "rewrite.jinja"
MAX_REVIEW_WORDS = 600  # of a review shown; our choice: all but a few reviews are shorter
MAX_QUERY_WORDS = 120  # of a rewritten query; more is no search; our choice
NAMED = 5  # query ids that a message shows

_ANSWER = re.compile(r"\s*<rewritten_query>([^<>]+)</rewritten_query>\s*")

Messages = list[dict[str, str]]
Check = Callable[[str], str | None]  # what is wrong with an answer's text; None: nothing
Keep = Callable[[int, str], None]  # takes the place and the text of a valid answer


class Completer(Protocol):
    """A language model that answers many conversations at once."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What an answer depends on besides the conversation; JSON-serialisable, no secret."""

    def complete(
        self, conversations: Sequence[Messages], check: Check, keep: Keep
    ) -> list[str | None]:
        """The valid answers in order, None where there was none; `keep` gets each as it comes."""


@dataclass(frozen=True, slots=True)
class QueryToRewrite:
    """A query as the data set has it."""

    query_id: str
    text: str
    review: str | None  # that it was written from; None: unknown


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Rewritten texts by query id, and what it took."""

    texts: dict[str, str]
    counts: dict[str, int]  # queries, cached, asked, retried, invalid, unchanged, reviews_cut


def rewrite_queries(
    rows: Sequence[QueryToRewrite],
    completer: Completer,
    store: ResponseStore,
    *,
    progress: bool = False,
) -> Rewrites:
    """A rewritten text for every query.

    Valid answers are recorded in `store` as they come, under the sha256 of the request, so that
    a run after a killed one asks only for what is missing. What got no valid answer is asked for
    once more; a query that still has none is an error: its own text never stands in for it.

    Raises:
        ValueError: two rows have one query id.
        JudgeError: queries are left without a rewrite, or the model cannot answer at all.
    """
    keys = _request_keys(rows, completer.identity)
    requests = {keys[row.query_id]: row for row in rows}  # equal requests are asked once
    answers = _recorded(store, list(requests))
    counts = {"queries": len(rows), "cached": sum(keys[row.query_id] in answers for row in rows)}
    invalid = 0
    for name, again in (("asked", False), ("retried", True)):
        missing = {key: row for key, row in requests.items() if key not in answers}
        new, faults = _ask(missing, completer, store, again, progress)
        answers |= new
        invalid += faults
        counts[name] = len(missing)
    if left := [row.query_id for row in rows if keys[row.query_id] not in answers]:
        raise _unanswered(left, len(rows), store.path)
    texts = {row.query_id: answers[keys[row.query_id]] for row in rows}
    counts |= {
        "invalid": invalid,
        "unchanged": sum(texts[row.query_id] == row.text for row in rows),
        "reviews_cut": sum(len((row.review or "").split()) > MAX_REVIEW_WORDS for row in rows),
    }
    log.info("Rewritten queries: %s", counts)
    return Rewrites(texts, counts)


def _request_keys(
    rows: Sequence[QueryToRewrite], identity: Mapping[str, Any]
) -> dict[str, str]:  # by query id
    keys = {
        row.query_id: fingerprint({**identity, "messages": rewrite_messages(row)}) for row in rows
    }
    if len(keys) != len(rows):
        raise ValueError("query ids must be unique")
    return keys


def _recorded(store: ResponseStore, keys: Sequence[str]) -> dict[str, str]:
    """The rewritten texts in the answers on record, as they are read today."""
    values = store.read(keys)
    texts = {key: parse_rewrite(value["answer"]) for key, value in values.items()}
    return {key: text for key, text in texts.items() if text is not None}


def _ask(
    missing: Mapping[str, QueryToRewrite],  # by request key
    completer: Completer,
    store: ResponseStore,
    again: bool,
    progress: bool,
) -> tuple[dict[str, str], int]:
    """The texts that could be had, by key, and how many answers were in no valid form."""
    if not missing:
        return {}, 0
    texts: dict[str, str] = {}
    invalid = 0
    keys = list(missing)

    def check(answer: str) -> str | None:
        nonlocal invalid
        valid = parse_rewrite(answer) is not None
        invalid += not valid
        return None if valid else "not one rewritten query"

    def keep(place: int, answer: str) -> None:
        store.write({keys[place]: {"answer": answer}}, replace=True)
        bar.update()

    conversations = [rewrite_messages(row, again=again) for row in missing.values()]
    with tqdm(total=len(keys), desc="rewriting queries", disable=not progress) as bar:
        try:
            answers = completer.complete(conversations, check, keep)
        except JudgeError as error:
            raise JudgeError(f"{error} {_kept(store.path)}") from error
    for key, answer in zip(keys, answers, strict=True):
        if answer is not None and (text := parse_rewrite(answer)) is not None:
            texts[key] = text
    return texts, invalid


def _unanswered(query_ids: Sequence[str], total: int, path: Path) -> JudgeError:
    return JudgeError(
        f"{len(query_ids)} of {total} queries have no valid rewrite after two tries each, the "
        f"first of them: {_named(query_ids)}. {_kept(path)} If answers are cut off, raise "
        "rewriter.max_completion_tokens; data.rewrite=none uses the queries as they are"
    )


def _kept(path: Path) -> str:
    return f"The answers that came are kept in {path}: run again to ask for the rest alone."


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:NAMED]) + (", ..." if len(ids) > NAMED else "")


# ---------------------------------------------------------------- the prompt and its answer


def rewrite_messages(row: QueryToRewrite, *, again: bool = False) -> Messages:
    """The conversation that asks for one rewritten query; `again` after an invalid answer."""
    review = one_line(row.review or "").split()[:MAX_REVIEW_WORDS]
    values = {"query": one_line(row.text), "review": " ".join(review), "again": again}
    template = load_template(TEMPLATE)
    return [
        {"role": role, "content": "".join(block(template.new_context(dict(values)))).strip()}
        for role, block in ((role, template.blocks[role]) for role in ("system", "user"))
    ]


def one_line(text: str) -> str:
    """Untrusted text as one line that cannot close its field, whatever it is written with.

    HTML entities are opened and compatibility forms folded (NFKC) first, so that neither can
    stand for an angle bracket that `escape_text` would have replaced.
    """
    opened = html.unescape(unicodedata.normalize("NFKC", text))
    return escape_text(unicodedata.normalize("NFKC", opened))


def parse_rewrite(answer: str) -> str | None:
    """The text of a valid answer: one tag, nothing around it, some words and not too many."""
    found = _ANSWER.fullmatch(answer)
    text = escape_text(found.group(1)) if found else ""
    has_words = any(character.isalnum() for character in text)
    return text if has_words and len(text.split()) <= MAX_QUERY_WORDS else None


# ---------------------------------------------------------------- files of rewrites


def read_rewrites(path: Path, query_ids: Collection[str]) -> dict[str, str]:
    """The rewritten texts of these queries from JSON Lines of `query_id` and `text`.

    Lines about other queries are counted in the log.

    Raises:
        DataError: the file is missing or a line is broken, blank or given twice (`file:line`), or
            a query has no line.
    """
    if not path.is_file() or path.suffix != ".jsonl":
        raise DataError(f"data.rewrites={path}: there is no such file that ends in .jsonl")
    with duckdb.connect() as connection:  # every line is checked before any is used
        read_rows(connection, "rows", [path], {"query_id": Kind.text, "text": Kind.text})
    texts: dict[str, str] = {}
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            record = json.loads(line)
            query_id, text = record["query_id"], " ".join(record["text"].split())
            if not text:
                raise DataError(f"{path}:{number}: the text of query {query_id!r} is blank")
            if query_id in texts:
                raise DataError(
                    f"{path}:{number}: query {query_id!r} was given before; keep one line of it"
                )
            texts[query_id] = text
    if missing := sorted(set(query_ids) - texts.keys()):
        raise DataError(
            f"{path}: {len(missing)} of {len(set(query_ids))} queries have no rewrite, the first "
            f"of them: {_named(missing)}. Add their lines, or set data.rewrite=llm or none"
        )
    wanted = {query_id: texts[query_id] for query_id in query_ids}
    log.info("%s: %d rewrites, %d of other queries", path, len(wanted), len(texts) - len(wanted))
    return wanted


def write_rewrites(path: Path, texts: Mapping[str, str]) -> None:
    """Writes rewritten texts as `read_rewrites` reads them, sorted by query id."""
    lines = (canonical_json({"query_id": key, "text": texts[key]}) for key in sorted(texts))
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines))
