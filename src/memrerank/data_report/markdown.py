"""A data report as Markdown."""

from collections.abc import Iterator

from memrerank.data.leaks import RUN_WORDS, LeakReport
from memrerank.data_report.averages import mean_and_median
from memrerank.data_report.coverage import Coverage
from memrerank.data_report.facts import DataFacts
from memrerank.data_report.histories import choose_categories
from memrerank.data_report.tables import NOTHING, number, percent, readable, table

HASH_CHARACTERS = 16  # of a sha256 that are shown
EXAMPLES = 5  # leaking queries that are shown, of each kind
CATEGORIES_IMAGE = "history_by_category.png"
LENGTHS_IMAGE = "history_lengths.png"
RECALL_IMAGE = "recall.png"


def report_markdown(facts: DataFacts) -> str:
    """The whole report; images are named relative to its folder."""
    sections = {
        "Made with": _settings(facts),
        "Splits and retrievers": _coverage(facts),
        "Recall": _recall(facts),
        "Histories": _histories(facts),
        "Products": _products(facts),
        "Leak check": _leaks(facts),
        "Counts": _counts(facts),
        "Hashes": _hashes(facts),
    }
    parts = [f"# Data report: {readable(facts.category)}"]
    parts += [f"## {title}\n\n" + "\n\n".join(body) for title, body in sections.items()]
    return "\n\n".join(parts) + "\n"


def _settings(facts: DataFacts) -> Iterator[str]:
    yield table(["setting", "value"], facts.settings.items(), words=2)


def _coverage(facts: DataFacts) -> Iterator[str]:
    yield table(
        ["split", "queries", "users"],
        ([split, number(s.queries), number(s.users)] for split, s in facts.splits.items()),
    )
    yield table(
        ["split", "retriever", "queries", "users", "eligible pairs", "instances", "repeated"],
        (
            [
                row.split,
                row.retriever,
                number(row.queries),
                number(facts.splits[row.split].users),
                f"{row.eligible:,}{_of(row.eligible, row.queries)}",
                number(row.instances),
                number(row.repeated),
            ]
            for row in facts.coverage
        ),
        words=2,
    )
    yield (
        "A (query, retriever) pair is eligible when the pool holds the positive and four other "
        f"products at least. Instances are drawn for train and dev; {NOTHING}: none are drawn from "
        "this split or, since it is held out, from this retriever. Repeated: instances with the "
        "candidates of an earlier one of their pair."
    )


def _recall(facts: DataFacts) -> Iterator[str]:
    cutoffs = sorted({k for row in facts.coverage for k in row.recall})
    yield "The share of queries whose positive is among the first k products of the pool."
    yield table(
        ["split", "retriever", *(f"@{k}" for k in cutoffs)],
        ([row.split, row.retriever, *_recall_cells(row, cutoffs)] for row in facts.coverage),
        words=2,
    )
    yield f"![Recall against the cut-off]({RECALL_IMAGE})"


def _recall_cells(row: Coverage, cutoffs: list[int]) -> list[str]:
    return [f"{row.recall[k]:.3f}" if k in row.recall else NOTHING for k in cutoffs]


def _histories(facts: DataFacts) -> Iterator[str]:
    shown = choose_categories(facts.histories, facts.min_queries)
    yield (
        "Purchases strictly before the target, of all queries of a category: before the cap "
        "`data.max_history`, and whether or not the product has a text. (The paper's Figure 9.)"
    )
    if shown.lengths and shown.lengths[0].queries < facts.min_queries:
        yield f"No category has {facts.min_queries} queries, so all are shown."
    else:
        yield (
            f"Left out for having fewer than {facts.min_queries} queries: "
            f"{_plural(shown.left_out, 'category', 'categories')}."
        )
    yield table(
        ["category", "queries", "within: mean", "median", "cross: mean", "median"],
        (
            [
                readable(one.category),
                number(one.queries),
                *(f"{one.within_mean:.2f}", f"{one.within_median:g}"),
                *(f"{one.cross_mean:.2f}", f"{one.cross_median:g}"),
            ]
            for one in shown.lengths
        ),
    )
    yield f"![History lengths by category]({CATEGORIES_IMAGE})"
    within, cross = (mean_and_median(side) for side in (facts.kept.within, facts.kept.cross))
    yield (
        f"As they are kept in {readable(facts.category)}, after the cap and without products that "
        f"have no text: within {within[0]:.2f} on average (median {within[1]:g}), cross "
        f"{cross[0]:.2f} (median {cross[1]:g}); {facts.kept.within[0]:,} queries have no purchase "
        f"within and {facts.kept.cross[0]:,} none across."
    )
    yield f"![History lengths as they are kept]({LENGTHS_IMAGE})"


def _products(facts: DataFacts) -> Iterator[str]:
    texts = facts.texts
    mean, median = mean_and_median(texts.words)
    rows = [
        ["products in the corpus", number(texts.products)],
        [
            "without description, features or details",
            f"{texts.without_description:,} ({percent(texts.share_without_description)})",
        ],
        ["words per product, mean", f"{mean:.1f}"],
        ["words per product, median", f"{median:g}"],
        ["words per product, most", number(max(texts.words, default=0))],
    ]
    for name in ("products_cut_at_max_words", "words_cut_at_max_words"):
        if name in facts.counts:
            rows.append([f"{readable(name)}, histories included", number(facts.counts[name])])
    yield table(["products", ""], rows)


def _leaks(facts: DataFacts) -> Iterator[str]:
    yield (
        "Queries that hold a distinctive word of their positive's title, or repeat "
        f"{RUN_WORDS} or more words in a row of the review that they were written from."
    )
    yield table(
        ["", "checked", "without a review", "title words", "review runs", "either"],
        (
            [
                name,
                number(leaks.checked),
                number(leaks.counts["without_review"]),
                *(
                    f"{leaks.counts[kind]:,} ({percent(leaks.share(kind))})"
                    for kind in ("title_words", "review_runs", "either")
                ),
            ]
            for name, leaks in facts.leaks.items()
        ),
    )
    examples = [line for name, leaks in facts.leaks.items() for line in _examples(name, leaks)]
    if examples:
        yield "\n".join(examples)


def _examples(name: str, leaks: LeakReport) -> Iterator[str]:
    """The first queries of each kind, with what they tell."""
    for kind, found in (
        ("title words", leaks.with_title_words),
        ("review runs", leaks.with_review_runs),
    ):
        if found:
            told = (f"`{one.query_id}`: {', '.join(one.found)}" for one in found[:EXAMPLES])
            shown = "; ".join(told)
            yield f"- {name}, {kind}, first {min(EXAMPLES, len(found))} of {len(found)}: {shown}"


def _counts(facts: DataFacts) -> Iterator[str]:
    yield "What was read, kept and left out on the way (docs/data.md). A count that is absent is 0."
    rows = ([readable(name), number(count)] for name, count in facts.counts.items())
    yield table(["what", "number"], rows)


def _hashes(facts: DataFacts) -> Iterator[str]:
    yield f"The first {HASH_CHARACTERS} characters of each sha256."
    yield table(
        ["result", "sha256"],
        ([name, _short(sha256)] for name, sha256 in facts.fingerprints.items()),
        words=2,
    )
    yield table(
        ["file read", "sha256"],
        ([f"`{path}`", _short(sha256)] for path, sha256 in sorted(facts.sources.items())),
        words=2,
    )
    yield table(
        ["step", "sha256", "this time"],
        (
            [f"`{name}`", _short(step.sha256), "made" if step.made else "reused"]
            for name, step in facts.steps.items()
        ),
        words=3,
    )


def _short(sha256: str) -> str:
    return f"`{sha256[:HASH_CHARACTERS]}`"


def _of(part: int, whole: int) -> str:
    return f" ({percent(part / whole)})" if whole else ""


def _plural(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
