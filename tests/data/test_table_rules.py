"""Every rule on the three tables: what breaks it, how often, and what is said of it."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from table_shop import (
    PRODUCTS,
    PURCHASES,
    QUERIES,
    T,
    asked,
    bought,
    read_shop,
    write_shop,
    write_table,
)

from memrerank.data.table import TableSettings
from memrerank.data.table.report import FaultyRow, Violation, report, share
from memrerank.errors import DataError


def complaint(settings: TableSettings) -> list[str]:
    """The lines of the error that reading the shop ends with."""
    with pytest.raises(DataError) as error:
        read_shop(settings)
    return str(error.value).splitlines()


SPLIT = [{**row, "split": "train"} for row in QUERIES]

# Rows that are added to the table, and the lines that tell of them. There are 9 purchases, 5
# products and 3 queries before them.
BROKEN: dict[str, tuple[str, list[dict[str, Any]], list[str]]] = {
    "no user": (
        "purchases",
        [bought(None, "hose", T), bought("  ", "hose", T), bought("\u00a0", "hose", T)],
        ["3 rows: user_id has no value", "  row 10", "  row 11", "  row 12"],
    ),
    "no product bought": (
        "purchases",
        [bought("ann", "", T)],
        ["1 row: product_id has no value", "  row 10"],
    ),
    "no time": (
        "purchases",
        [bought("ann", "hose", None)],
        ["1 row: timestamp has no value", "  row 10"],
    ),
    "time is no number": (
        "purchases",
        [
            bought("ann", "hose", "2023-11-14"),
            bought("ann", "hose", "1700000000000.0"),
            bought("ann", "hose", "1e12"),
            bought("ann", "hose", " 1700000000000"),
            bought("ann", "hose", "9223372036854775808"),
        ],
        [
            "5 rows: timestamp is no whole number of 64 bits; write UTC milliseconds",
            "  row 10: 2023-11-14",
            "  row 11: 1700000000000.0",
            "  row 12: 1e12",
            "  row 13: 1700000000000",
            "  row 14: 9223372036854775808",
        ],
    ),
    "seconds": (
        "purchases",
        [bought("ann", "hose", n) for n in (499_999_999, 500_000_000, 9_999_999_999, 10**10)],
        [
            "2 rows: timestamp looks like seconds; write UTC milliseconds",
            "  row 11: 500000000",
            "  row 12: 9999999999",
        ],
    ),
    "microseconds": (
        "purchases",
        [bought("ann", "hose", n) for n in (10**14 - 1, 10**14, T * 10**6)],
        [
            "2 rows: timestamp looks like micro- or nanoseconds; write UTC milliseconds",
            "  row 11: 100000000000000",
            "  row 12: 1700000000000000000",
        ],
    ),
    "before 1970": (
        "purchases",
        [bought("ann", "hose", -1), bought("ann", "hose", 0)],
        ["1 row: timestamp is before 1970; write UTC milliseconds", "  row 10: -1"],
    ),
    "unknown product bought": (
        "purchases",
        [bought("ann", "HOSE", T)],
        ["1 row: product_id is not in the products", "  row 10: HOSE"],
    ),
    "no product id": (
        "products",
        [{"product_id": None, "title": "Axe", "category": "G"}],
        ["1 row: product_id has no value", "  row 6"],
    ),
    "no title": (
        "products",
        [{"product_id": "axe", "title": " ", "category": "G"}],
        ["1 row: title has no value", "  row 6"],
    ),
    "no category": (
        "products",
        [{"product_id": "axe", "title": "Axe"}],
        [
            "1 row: category has no value; fill it in, "
            "or leave the column out to have one category",
            "  row 6: axe",
        ],
    ),
    "two titles": (
        "products",
        [{"product_id": "hose", "title": "Hose, 20 m", "category": "G"}],
        [
            "1 row: product_id is there twice, with different titles; keep the right row",
            "  row 6: hose, as in row 2",
        ],
    ),
    "a product twice": (
        "products",
        [PRODUCTS[1], PRODUCTS[4], PRODUCTS[1]],
        [
            "3 rows: product_id is there twice, with the same title; keep one row",
            "  row 6: hose, as in row 2",
            "  row 7: rake, as in row 5",
            "  row 8: hose, as in row 2",
        ],
    ),
    "no query id": (
        "queries",
        [asked(None, "dig", "ann", "spade")],
        ["1 row: query_id has no value", "  row 4"],
    ),
    "no text": (
        "queries",
        [asked("q4", "\t", "ann", "spade")],
        ["1 row: text has no value", "  row 4"],
    ),
    "no one asked": (
        "queries",
        [asked("q4", "dig", None, "spade")],
        ["1 row: user_id has no value", "  row 4"],
    ),
    "no positive": (
        "queries",
        [asked("q4", "dig", "ann", None)],
        ["1 row: product_id has no value", "  row 4"],
    ),
    "a query's time": (
        "queries",
        [
            asked(f"q{n}", "dig", "ann", "spade", timestamp=time)
            for n, time in enumerate(("soon", -5, T // 1000, T * 1000), start=4)
        ],
        [
            "1 row: timestamp is no whole number of 64 bits; write UTC milliseconds",
            "  row 4: soon",
            "1 row: timestamp is before 1970; write UTC milliseconds",
            "  row 5: -5",
            "1 row: timestamp looks like seconds; write UTC milliseconds",
            "  row 6: 1700000000",
            "1 row: timestamp looks like micro- or nanoseconds; write UTC milliseconds",
            "  row 7: 1700000000000000",
        ],
    ),
    "a query twice": (
        "queries",
        [asked("q1", "dig", "ann", "spade")],
        [
            "1 row: query_id is there twice; each query needs one of its own",
            "  row 4: q1, as in row 2",
        ],
    ),
    "unknown positive": (
        "queries",
        [asked("q4", "dig", "ann", "moon", timestamp=T)],
        ["1 row: product_id is not in the products", "  row 4: moon"],
    ),
    "not bought": (
        "queries",
        [asked("q4", "fly", "ann", "kite"), asked("q5", "fly", "zoe", "kite", timestamp=T)],
        [
            "1 row: the user has no purchase of the product, and the query no timestamp of its own",
            "  row 4: ann and kite",
        ],
    ),
}


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("name", BROKEN)
def test_every_rule_is_told_with_its_rows(tmp_path: Path, name: str, suffix: str):
    table, rows, told = BROKEN[name]
    sound = {"purchases": PURCHASES, "products": PRODUCTS, "queries": QUERIES}[table]
    settings = write_shop(tmp_path / "shop", suffix, **{table: [*sound, *rows]})
    lines = complaint(settings)
    assert lines[1] == str(settings.files[table])
    assert lines[2:] == ["  " + line for line in told]


@pytest.mark.parametrize(
    ("splits", "told"),
    [
        (
            ("train", "valid", "Test"),
            ["2 rows: split is none of train, dev, test", "  row 2: valid", "  row 3: Test"],
        ),
        (
            (None, "dev", ""),
            [
                "2 rows: split has no value, though other rows have one; "
                "give all rows one, or none",
                "  row 1: q2",
                "  row 3: q3",
            ],
        ),
    ],
)
def test_splits_are_known_and_whole(tmp_path: Path, splits: tuple, told: list[str]):
    rows = [{**row, "split": split} for row, split in zip(QUERIES, splits, strict=True)]
    lines = complaint(write_shop(tmp_path / "shop", ".csv", queries=rows))
    assert lines[2:] == ["  " + line for line in told]


def test_no_user_is_in_two_splits(tmp_path: Path):
    more = [
        asked("q4", "dig", "ann", "spade", split="test"),
        asked("q5", "dig", "ann", "hose", split="train"),
        asked("q6", "dig", "ann", "robot", split="dev"),
    ]
    lines = complaint(write_shop(tmp_path / "shop", queries=[*SPLIT, *more]))
    assert lines[2:] == [
        "    2 rows: the user has an earlier query in another split; "
        "keep all queries of a user in one".removeprefix("  "),
        "    row 4: ann in test, in row 2 in train",
        "    row 6: ann in dev, in row 2 in train",
    ]


def test_json_that_is_no_text(tmp_path: Path):
    more = [
        {"product_id": 1.5, "title": "Axe", "category": "G"},
        {"product_id": "axe", "title": ["Axe", "Large"], "category": True},
        {"product_id": 12, "title": "Box", "category": "G", "description": {"a": 1}},
    ]
    lines = complaint(write_shop(tmp_path / "shop", ".jsonl", products=[*PRODUCTS, *more]))
    assert lines[2:] == [
        "  4 rows: a value is neither text nor a whole number",
        "    row 6: product_id is 1.5",
        "    row 7: category is true",
        '    row 7: title is ["Axe","Large"]',
        '    row 8: description is {"a":1}',
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_missing_columns_are_told_with_those_found(tmp_path: Path, suffix: str):
    settings = write_shop(tmp_path / "shop", suffix)
    path = write_table(settings.files["products"], [{"id": "a", "name": "b"}])
    lines = complaint(settings)
    assert lines == [
        "the tables break 2 rules; correct them and run again",
        str(path),
        "  the column product_id is missing (columns found: id, name)",
        "  the column title is missing (columns found: id, name)",
        f"Rules that need {path.name} could not be checked.",
    ]


def test_a_column_that_is_there_twice(tmp_path: Path):
    settings = write_shop(tmp_path / "shop", ".csv")
    settings.files["products"].write_text("product_id,title,title\na,b,c\n")
    assert "  two columns are called title" in complaint(settings)


def test_parquet_columns_of_other_types(tmp_path: Path):
    settings = write_shop(tmp_path / "shop", ".parquet")
    table = pa.table({"user_id": ["a"], "product_id": [1.0], "timestamp": [float(T)]})
    pq.write_table(table, settings.files["purchases"])
    assert complaint(settings)[2:4] == [
        "  the column product_id is of type DOUBLE; write it as strings or integers",
        "  the column timestamp is of type DOUBLE; write it as UTC milliseconds, 64-bit integers",
    ]


def test_a_table_that_is_not_there(tmp_path: Path):
    settings = write_shop(tmp_path / "shop", ".csv")
    settings.files["queries"].unlink()
    assert complaint(settings)[1:3] == [str(settings.files["queries"]), "  there is no such file"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("p.csv", b"product_id,title\na,b\nc,\xff\n", "line 3: invalid UTF-8"),
        ("p.csv", b"product_id,title\na,b\nc\n", "line 3: 1 values where the header has 2"),
        ("p.csv", b'product_id,title\na,"b\nc,d\n', "line 2: malformed CSV"),
        ("p.csv", b"", "is empty"),
        ("p.csv", b"product_id,title\n", "the table has no rows"),
        ("p.jsonl", b'{"product_id": "a", "title": "b"}\n{"prod\n', "line 2: broken JSON"),
        ("p.jsonl", b'\n{"product_id": "a", "title": "\xff"}\n', "line 2: invalid UTF-8"),
        ("p.jsonl", b'{"product_id": "a", "title": "b"}\n[1]\n', "line 2: expected a JSON object"),
        ("p.jsonl", b"", "no line holds a JSON object with a key"),
        ("p.jsonl.gz", b"not gzip", "the file is damaged or was not copied whole"),
        ("p.jsonl.gz", gzip.compress(b'{"title": 1}\n' * 9)[:-9], "the file is damaged"),
        ("p.csv.gz", gzip.compress(b"product_id,title\na,b\n")[:-9], "the file is damaged"),
        ("p.parquet", b"PAR1 and no more", "cannot be read as Parquet"),
        ("p.parquet", b"", "cannot be read as Parquet"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, told: str):
    settings = replace(write_shop(tmp_path / "shop"), products=name)
    path = settings.files["products"]
    path.write_bytes(content)
    lines = complaint(settings)
    assert lines[1] == str(path)
    assert told in lines[2]
    assert lines[3] == f"Rules that need {name} could not be checked."


def test_all_tables_are_told_of_at_once(tmp_path: Path):
    settings = write_shop(
        tmp_path / "shop",
        ".csv",
        purchases=[*PURCHASES, bought("ann", "moon", 1_700_000_000)],
        queries=[*QUERIES, asked("q1", "", "ann", "spade")],
    )
    lines = complaint(settings)
    assert lines == [
        "the tables break 4 rules; correct them and run again "
        "(4 rows at fault, counted once per rule; 4 shown, data.max_faults= sets how many)",
        str(settings.files["purchases"]),
        "  1 row: timestamp looks like seconds; write UTC milliseconds",
        "    row 10: 1700000000",
        "  1 row: product_id is not in the products",
        "    row 10: moon",
        str(settings.files["queries"]),
        "  1 row: text has no value",
        "    row 4",
        "  1 row: query_id is there twice; each query needs one of its own",
        "    row 4: q1, as in row 2",
    ]
    # Where a table cannot be read, the rules of the others are checked all the same.
    settings.files["products"].write_text("id\n1\n")
    lines = complaint(settings)
    assert [line for line in lines if line.startswith("  ") and "row" not in line] == [
        "  the column product_id is missing (columns found: id)",
        "  the column title is missing (columns found: id)",
    ]
    assert "  1 row: timestamp looks like seconds; write UTC milliseconds" in lines
    assert not any("not in the products" in line for line in lines)


def test_the_limit_keeps_rows_short_and_counts_whole(tmp_path: Path):
    many = [bought("ann", "hose", 10**9 + n) for n in range(5000)]
    settings = write_shop(
        tmp_path / "shop", ".csv", [*PURCHASES, *many, bought("", "hose", T), bought("", "hose", T)]
    )
    assert complaint(replace(settings, max_faults=4)) == [
        "the tables break 2 rules; correct them and run again "
        "(5,002 rows at fault, counted once per rule; 4 shown, data.max_faults= sets how many)",
        str(settings.files["purchases"]),
        "  2 rows: user_id has no value",
        "    row 5010",
        "    row 5011",
        "  5,000 rows: timestamp looks like seconds; write UTC milliseconds",
        "    row 10: 1000000000",
        "    row 11: 1000000001",
        "    and 4,998 more",
    ]
    assert complaint(replace(settings, max_faults=1))[-2:] == [
        "  5,000 rows: timestamp looks like seconds; write UTC milliseconds",
        "    5,000 not shown",
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_rows_keep_their_numbers_in_a_file_that_several_threads_read(tmp_path: Path, suffix: str):
    settings = write_shop(tmp_path / "shop", suffix)
    rows, bad = 300_000, {1: "a", 131_072: "b", 299_999: "c"}
    times = pa.array([str(bad.get(row, T + row)) for row in range(rows)])
    table = pa.table({"user_id": ["ann"] * rows, "product_id": ["hose"] * rows, "timestamp": times})
    path = settings.files["purchases"]
    if suffix == ".parquet":
        pq.write_table(table, path, row_group_size=50_000)
    elif suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        line = '{"user_id": "ann", "product_id": "hose", "timestamp": "%s"}\n'
        path.write_text("".join(line % time for time in times.to_pylist()))
    lines = complaint(settings)
    assert [line for line in lines if line.startswith("    row")][:3] == [
        "    row 2: a",
        "    row 131073: b",
        "    row 300000: c",
    ]


def test_what_is_wrong_is_told_again_until_it_is_corrected(tmp_path: Path):
    settings = write_shop(tmp_path / "shop", queries=[*QUERIES, QUERIES[0]])
    assert complaint(settings) == complaint(settings)
    write_table(settings.files["queries"], QUERIES)
    _, steps = read_shop(settings)
    assert not steps.done["table-products"].made  # read by the runs that failed
    assert steps.done["table-queries"].made


@pytest.mark.parametrize(
    ("sizes", "limit", "taken"),
    [([5000, 1, 3], 6, [3, 1, 2]), ([1, 2], 9, [1, 2]), ([4, 4, 4], 2, [1, 1, 0]), ([], 3, [])],
)
def test_rules_take_turns(sizes: list[int], limit: int, taken: list[int]):
    assert share(sizes, limit) == taken


def test_values_are_shown_on_one_line_and_cut():
    row = FaultyRow(7, "a\n b" + "c" * 100)
    text = report([Violation(Path("p.csv"), "wrong", 1, (row,))], 5)
    assert text.splitlines()[-1] == "    row 7: a b" + "c" * 57 + "..."
