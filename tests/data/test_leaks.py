"""The leak check, on cases worked out by hand and against brute force."""

from collections import Counter
from itertools import product as combinations

import pytest

from memrerank.data.leaks import (
    Leak,
    LeakInput,
    TitleFrequencies,
    check_leaks,
    common_runs,
    is_model_number,
    shared_words,
    title_frequencies,
    title_leaks,
    words_of,
)
from memrerank.seeding import numpy_generator


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP, won’t stop!", ["dont", "stop", "wont", "stop"]),
        ("WH-1000XM4 (black)", ["wh", "1000xm4", "black"]),
        ("all of it.<br /><br />You get 12", ["all", "of", "it", "you", "get", "12"]),
        ("salt &amp; vinegar, caf&eacute;, Caf\u00e9", ["salt", "vinegar", "café", "café"]),
        ("ﬁne Ｓｈｏｅ snake_case", ["fine", "shoe", "snake", "case"]),
        ("... --- !!", []),
    ],
)
def test_words_are_compared_without_case_punctuation_and_html(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_titles_are_counted_once_per_title_in_one_pass() -> None:
    titles = (title for title in ["Red red lamp", "LAMP, blue", "", "Desk"])
    frequencies = title_frequencies(titles)
    assert frequencies == TitleFrequencies(4, Counter(lamp=2, red=1, blue=1, desk=1))
    some = title_frequencies(["Red red lamp", "LAMP, blue", "", "Desk"], only={"lamp", "chair"})
    assert some == TitleFrequencies(4, Counter(lamp=2))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1000xm4", True),
        ("s10", True),
        ("b12", True),
        ("128gb", False),
        ("5inch", False),
        ("2019", False),
        ("lamp", False),
    ],
)
def test_model_numbers_mix_letters_and_digits(word: str, expected: bool) -> None:
    assert is_model_number(word) is expected


def test_rare_title_words_and_model_numbers_are_distinctive() -> None:
    # 1,000 titles and a share of 0.002: a word may be in 2 titles, a model number in 20.
    counts = {"zorblatt": 2, "quiet": 3, "headphones": 400, "1000xm4": 20, "a1b": 21, "zz": 1}
    frequencies = TitleFrequencies(1000, Counter(counts))
    title = "Zorblatt ZZ quiet headphones 1000XM4 a1b"
    row = LeakInput("q", "quiet 1000xm4 zz headphones by Zorblatt, a1b, zorblatt!", title, None)
    assert title_leaks(row, frequencies, share=0.002) == ("1000xm4", "zorblatt")
    assert title_leaks(row, frequencies, share=0.003) == ("quiet", "1000xm4", "zorblatt", "a1b")
    # A share of less than one title still leaves a word that no other title has.
    one = TitleFrequencies(10, Counter(zorblatt=1, quiet=2))
    assert title_leaks(row, one, share=1e-4)[0] == "1000xm4"
    assert "zorblatt" in title_leaks(row, one, share=1e-4)
    assert "quiet" not in title_leaks(row, one, share=1e-4)


def test_rare_words_that_the_title_does_not_hold_do_not_leak() -> None:
    row = LeakInput("q", "a quixotic lamp", "Lamp", None)
    assert title_leaks(row, TitleFrequencies(1000, Counter(lamp=500)), share=0.01) == ()


def test_counting_the_shared_words_alone_gives_the_same_report() -> None:
    titles = ["Zorblatt lamp", "Lamp of brass", "Brass bed", "Plain lamp"]
    rows = [
        LeakInput("1", "a zorblatt lamp", titles[0], None),
        LeakInput("2", "a brass lamp", titles[1], None),
        LeakInput("3", "a plain, cosy bed", titles[2], None),
    ]
    assert shared_words(rows) == {"zorblatt", "lamp", "brass", "bed"}
    report = check_leaks(rows, title_frequencies(titles))
    assert report == check_leaks(rows, title_frequencies(titles, only=shared_words(rows)))
    assert report.with_title_words == (Leak("1", ("zorblatt",)), Leak("3", ("bed",)))


REVIEW = "My son, who is six, loves this lamp! It's bright enough to read by at night."


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("who is six loves this", ()),  # five words
        ("WHO IS: six; loves this LAMP", ("who is six loves this lamp",)),
        ("lamp, bright enough to read by at", ("bright enough to read by at",)),
        ("this lamp, its bright enough to", ("this lamp its bright enough to",)),
        ("my son who is six loves a lamp bright enough to read by at night please", (
            "my son who is six loves", "bright enough to read by at night")),
        ("", ()),
    ],
)  # fmt: skip
def test_long_runs_of_the_review_are_found(text: str, runs: tuple[str, ...]) -> None:
    assert common_runs(text, REVIEW, 6) == runs
    assert common_runs(text, None, 6) == ()


def test_a_run_goes_on_as_long_as_its_best_place_in_the_review() -> None:
    assert common_runs("a b c d e", "a b c x. a b c d y. d e", 2) == ("a b c d",)
    assert common_runs("a b c d e", "a b c x. a b c d y. d e", 5) == ()


def test_runs_agree_with_brute_force() -> None:
    generator = numpy_generator(0, "leaks")
    hits = 0
    for _ in range(300):
        query, review = (list(generator.choice(list("abc"), size)) for size in (8, 12))
        runs = common_runs(" ".join(query), " ".join(review), 4)
        shared = any(
            query[i : i + 4] == review[j : j + 4] for i, j in combinations(range(5), range(9))
        )
        assert bool(runs) == shared
        hits += shared
        for run in runs:
            assert f" {run} " in f" {' '.join(query)} "
            assert f" {run} " in f" {' '.join(review)} "
            assert len(run.split()) >= 4
    assert 20 < hits < 280


def test_the_report_counts_queries_and_names_what_leaked() -> None:
    titles = ["Zorblatt lamp", *["Lamp"] * 9]
    rows = [
        LeakInput("both", "zorblatt who is six loves this lamp", titles[0], REVIEW),
        LeakInput("run", "who is six loves this lamp", "Chair", REVIEW),
        LeakInput("word", "zorblatt please", titles[0], REVIEW),
        LeakInput("clean", "a bright lamp", titles[0], None),
    ]
    report = check_leaks(rows, title_frequencies(titles))
    assert report.with_title_words == (Leak("both", ("zorblatt",)), Leak("word", ("zorblatt",)))
    quote = ("who is six loves this lamp",)
    assert report.with_review_runs == (Leak("both", quote), Leak("run", quote))
    assert report.counts == {
        "checked": 4,
        "without_review": 1,
        "title_words": 2,
        "review_runs": 2,
        "either": 3,
    }
    assert report.share("either") == 0.75
    assert check_leaks([], title_frequencies([])).share("either") == 0.0
