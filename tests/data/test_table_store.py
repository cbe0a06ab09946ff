"""Three tables become what RawStore promises, whatever their format."""

from dataclasses import replace
from pathlib import Path

import pytest
from table_shop import (
    PRODUCTS,
    PURCHASES,
    QUERIES,
    T,
    asked,
    bought,
    read_shop,
    rows_of,
    write_shop,
    write_table,
)

from memrerank.errors import ConfigError, DataError

FORMATS = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")

TARGETS = [
    ("q1", "something to dig", "ann", "spade", "G", T + 30, None, None),
    ("q2", "a robot", "bob", "robot", "Toys", T + 50, None, "My son, 5, loves it"),
    ("q3", "water, please", "cy", "hose", "G", T + 80, None, None),
]
BEFORE = [
    ("q1", "G", "hose", T + 10, True),
    ("q1", "G", "robot", T + 20, False),
    ("q2", "Toys", "hose", T + 5, False),
]
NOTHING = (None, None, None)  # features, details, item_text
FOUND = [
    ("hose", "G", "Hose, 10 m", None, *NOTHING, True, False, True, True),
    ("kite", "Toys", "Kïte", '["Flies"]', *NOTHING, True, False, False, True),
    ("rake", "G", "Rake", None, *NOTHING, True, False, False, True),
    ("robot", "Toys", "Robot", '["{\\"a\\": 1}"]', *NOTHING, True, False, True, True),
    ("spade", "G", "Spade", '["A \\"good\\", old\\none"]', *NOTHING, True, False, True, True),
]


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_shop_in_every_format(tmp_path: Path, suffix: str):
    raw, _ = read_shop(write_shop(tmp_path / "shop", suffix))
    assert rows_of(raw.targets.path) == TARGETS
    assert rows_of(raw.purchases.path) == BEFORE
    assert rows_of(raw.products.path) == FOUND
    assert raw.counts == {
        "purchases_in_file": 9,
        "products_in_file": 5,
        "queries_in_file": 3,
        "purchases_repeated": 1,
    }
    assert raw.category_counts == {"G": {"queries_in_file": 2}, "Toys": {"queries_in_file": 1}}


def test_a_corpus_of_one_category_keeps_the_products_of_histories(tmp_path: Path):
    raw, _ = read_shop(write_shop(tmp_path / "shop"), corpus="category")
    kept = [(row[0], row[-2], row[-1]) for row in rows_of(raw.products.path)]
    # The kite is of another category, answers no query and was bought before none.
    assert kept == [
        ("hose", True, True),
        ("rake", False, True),
        ("robot", True, False),
        ("spade", True, True),
    ]


def test_ids_may_be_numbers_in_any_table(tmp_path: Path):
    for suffix, one in ((".parquet", 1), (".jsonl", 1), (".csv", "1")):
        settings = write_shop(
            tmp_path / suffix / "shop",
            suffix,
            purchases=[bought(1, 11, T), bought(1, 10, T - 1)],
            products=[{"product_id": id, "title": "Mug"} for id in (10, 11)],
            queries=[asked(one, "mug", one, 11)],
        )
        raw, _ = read_shop(settings, category="All")
        assert rows_of(raw.targets.path) == [("1", "mug", "1", "11", "All", T, None, None)]
        assert rows_of(raw.purchases.path) == [("1", "All", "10", T - 1, True)]


def test_tables_of_different_formats_go_together_and_other_columns_are_not_read(tmp_path: Path):
    settings = write_shop(tmp_path / "shop")
    products = [{**row, "price": number} for number, row in enumerate(PRODUCTS)]
    write_table(settings.root / "p.parquet", products)
    write_table(settings.root / "q.csv.gz", QUERIES)
    raw, _ = read_shop(replace(settings, products="p.parquet", queries="q.csv.gz"))
    assert rows_of(raw.products.path) == FOUND
    assert rows_of(raw.targets.path) == TARGETS


def test_given_splits_are_kept(tmp_path: Path):
    splits = {"q1": "train", "q2": "dev", "q3": "test"}
    given = [{**row, "split": splits[row["query_id"]]} for row in QUERIES]
    raw, _ = read_shop(write_shop(tmp_path / "shop", ".csv", queries=given))
    assert [(row[0], row[6]) for row in rows_of(raw.targets.path)] == [
        ("q1", "train"),
        ("q2", "dev"),
        ("q3", "test"),
    ]


def test_a_query_with_a_time_of_its_own_needs_no_purchase(tmp_path: Path):
    queries = [asked("q", "fly", "ann", "kite", timestamp=T + 25)]
    raw, _ = read_shop(write_shop(tmp_path / "shop", queries=queries), category="Toys")
    assert rows_of(raw.targets.path) == [("q", "fly", "ann", "kite", "Toys", T + 25, None, None)]
    assert rows_of(raw.purchases.path) == [
        ("q", "Toys", "hose", T + 10, False),
        ("q", "Toys", "robot", T + 20, True),
    ]


def test_a_table_with_windows_line_ends_and_a_mark_in_front(tmp_path: Path):
    settings = write_shop(tmp_path / "shop", ".csv")  # Python's writer ends rows with \r\n
    path = settings.root / "products.csv"
    text = path.read_bytes()
    assert text.count(b"\r\n") == 6
    path.write_bytes(b"\xef\xbb\xbf" + text)
    marked, _ = read_shop(settings)
    path.write_bytes(text.replace(b"\r\n", b"\n"))
    plain, _ = read_shop(settings)
    assert rows_of(marked.products.path) == rows_of(plain.products.path) == FOUND


def test_a_second_run_makes_nothing(tmp_path: Path):
    settings = write_shop(tmp_path / "shop")
    _, first = read_shop(settings)
    assert all(step.made for step in first.done.values())
    _, again = read_shop(settings)
    assert [name for name, step in again.done.items() if step.made] == []
    assert {name: step.sha256 for name, step in again.done.items()} == {
        name: step.sha256 for name, step in first.done.items()
    }


@pytest.mark.parametrize(
    ("table", "rows", "made"),
    [
        # A purchase that changes no query's time: the targets come out the same.
        (
            "purchases",
            [*PURCHASES, bought("bob", "rake", T)],
            {"table-purchases", "table-checks", "targets", "purchases"},
        ),
        (
            "products",
            [*PRODUCTS, {"product_id": "axe", "title": "Axe", "category": "G"}],
            {"table-products", "table-checks", "targets", "purchases", "products"},
        ),
        (
            "queries",
            [{**row, "text": "new words"} for row in QUERIES],
            {"table-queries", "table-checks", "targets", "purchases", "products"},
        ),
    ],
)
def test_a_changed_table_redoes_what_depends_on_it(tmp_path: Path, table: str, rows, made: set):
    settings = write_shop(tmp_path / "shop")
    read_shop(settings)
    write_table(settings.files[table], rows)
    _, steps = read_shop(settings)
    assert {name for name, step in steps.done.items() if step.made} == made


def test_an_unknown_category_is_told_those_that_there_are(tmp_path: Path):
    with pytest.raises(DataError) as error:
        read_shop(write_shop(tmp_path / "shop"), category="Electronics")
    assert "no query is for a product of the category Electronics" in str(error.value)
    assert str(error.value).endswith("one of those with queries: G (2), Toys (1)")


def test_at_most_twenty_categories_are_told(tmp_path: Path):
    products = [
        {"product_id": f"p{n:02}", "title": "Mug", "category": f"C{n:02}"} for n in range(23)
    ]
    queries = [asked(f"q{n:02}", "mug", "ann", f"p{n:02}", timestamp=T) for n in range(23)]
    purchases = [bought("ann", "p00", T)]
    settings = write_shop(tmp_path / "shop", ".csv", purchases, products, queries)
    with pytest.raises(DataError, match=r"C00 \(1\), C01 \(1\), .*, C19 \(1\) and 3 more$"):
        read_shop(settings, category="Mugs")


def test_settings_that_will_not_do(tmp_path: Path):
    settings = write_shop(tmp_path / "shop")
    with pytest.raises(ConfigError, match=r"corpus=c4_1m .* set corpus=all or corpus=category"):
        read_shop(settings, corpus="c4_1m")
    with pytest.raises(ConfigError, match=r"data.queries=queries.xlsx: .* \.parquet, \.csv"):
        read_shop(replace(settings, queries="queries.xlsx"))
    with pytest.raises(ConfigError, match=r"data\.max_faults=0 will not do"):
        replace(settings, max_faults=0)
