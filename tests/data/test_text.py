"""product_text and flatten on every form that metadata comes in."""

import pytest

from memrerank.data.text import flatten, product_text

FEATURES = '["Light.", "Folds flat."]'
DETAILS = '{"Brand": "Acme", "Size": {"Length": "3 in", "Note": " "}, "Colors": ["red", "blue"]}'
DETAILS_TEXT = "Brand: Acme; Size: Length: 3 in; Colors: red blue"


@pytest.mark.parametrize(
    ("description", "features", "details", "expected"),
    [
        ('["A  chair.", " For\\ngardens. "]', FEATURES, DETAILS, "A chair. For gardens."),
        ('"A chair in one string."', FEATURES, DETAILS, "A chair in one string."),
        ("[]", FEATURES, DETAILS, "Light. Folds flat."),
        ('["", "  "]', FEATURES, DETAILS, "Light. Folds flat."),
        (None, "[]", DETAILS, DETAILS_TEXT),
        (None, None, '"{\\"Brand\\": \\"Acme\\"}"', "Brand: Acme"),
        (None, None, '"{not JSON"', "{not JSON"),
        ("null", "null", "{}", ""),
        (None, None, None, ""),
    ],
)
def test_description_falls_back_to_features_then_details(description, features, details, expected):
    assert product_text(" Garden\tchair ", description, features, details, 120)[:2] == (
        "Garden chair",
        expected,
    )


@pytest.mark.parametrize(
    ("max_words", "expected"),
    [
        (1, ("Garden", "", 4)),
        (2, ("Garden chair", "", 3)),
        (3, ("Garden chair", "Light.", 2)),
        (5, ("Garden chair", "Light. Folds flat.", 0)),
        (99, ("Garden chair", "Light. Folds flat.", 0)),
    ],
)
def test_the_cap_counts_title_and_description_together(max_words, expected):
    assert product_text("Garden chair", "[]", FEATURES, None, max_words) == expected


def test_flatten_keeps_numbers_and_skips_empty_parts():
    assert flatten({"Weight": 2.5, "Empty": [], "None": None, "Parts": ["a", ["b", 3]]}) == (
        "Weight: 2.5; Parts: a b 3"
    )
