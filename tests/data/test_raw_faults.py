"""Faulty files: each message names the file, the line, and what is wrong or what to set."""

import csv
import gzip
import re
import shutil
from pathlib import Path

import pytest
from raw_records import load_benchmark, product, review, write_lines

from memrerank.errors import DataError

REVIEWS = "raw/review_categories/Pens.jsonl"
METADATA = "raw/meta_categories/meta_Pens.jsonl"
ITEMS = "amazon_c4/sampled_item_metadata_1M.jsonl"
QUERIES = "amazon_c4/test.csv"


def message_of(root: Path, category: str = "Pens") -> str:
    """The message of the DataError that loading the store must end in."""
    with pytest.raises(DataError) as caught:
        load_benchmark(root, category, max_history=5, max_words=120, seed=0, source="test")
    message = str(caught.value)
    assert "Traceback" not in message
    assert "auto_detect" not in message  # DuckDB's advice is no use to ours
    return message


@pytest.mark.parametrize(
    "missing",
    ["raw/review_categories", "raw/meta_categories", REVIEWS, METADATA, QUERIES, ITEMS],
)
def test_missing_folder_or_file_is_named_with_the_setting(three_shoppers, missing):
    path = three_shoppers / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    message = message_of(three_shoppers)
    assert str(path) in message
    assert "set data.root=" in message


def test_missing_root_is_named_with_the_setting(tmp_path):
    message = message_of(tmp_path / "nowhere")
    assert message.startswith(f"the data root {tmp_path / 'nowhere'} does not exist")
    assert "set data.root=" in message


def test_unknown_category_lists_those_there_are(three_shoppers):
    write_lines(three_shoppers / "raw/review_categories/Inks.jsonl", [])
    message = message_of(three_shoppers, "Pans")
    assert "Pans.jsonl" in message
    assert "(Inks, Pens)" in message


BROKEN_LINES = {
    '{"user_id": "u1", "parent_asin": ': "broken JSON",
    '{"user_id": "u1", "parent_asin": "p", "timestamp": NaN}': "broken JSON",
    '["u1", "p", 3]': "expected a JSON object",
    '{"user_id": "u1", "timestamp": 3}': "the field 'parent_asin' is missing",
    '{"user_id": 7, "parent_asin": "p", "timestamp": 3}': "'user_id' must be a string, found 7",
    '{"user_id": null, "parent_asin": "p", "timestamp": 3}': "must be a string, found null",
    '{"user_id": "u1", "parent_asin": "p", "timestamp": "x"}': 'must be an integer, found "x"',
    '{"user_id": "u1", "parent_asin": "p", "timestamp": "3"}': 'must be an integer, found "3"',
    '{"user_id": "u1", "parent_asin": "p", "timestamp": 3.5}': "must be an integer, found 3.5",
    '{"user_id": "u1", "parent_asin": "p", "timestamp": true}': "must be an integer, found true",
}


@pytest.mark.parametrize(("line", "fault"), BROKEN_LINES.items())
def test_faulty_review_line_is_named_by_file_and_number(three_shoppers, line, fault):
    path = three_shoppers / REVIEWS
    lines = path.read_text().splitlines()
    write_lines(path, [*lines[:4], "", line, *lines[4:]])
    message = message_of(three_shoppers)
    assert message.startswith(f"{path}:6: ")
    assert fault in message


def test_a_fault_in_another_categorys_file_is_found_too(three_shoppers):
    path = three_shoppers / "raw/review_categories/Inks.jsonl"
    write_lines(path, [review("u9", "ink", 1), "{", review("u9", "ink", 1)])
    assert message_of(three_shoppers).startswith(f"{path}:2: broken JSON")


def test_invalid_utf8_is_named_by_line_and_byte(three_shoppers):
    path = three_shoppers / REVIEWS
    write_lines(path, [*path.read_text().splitlines(), b'{"user_id": "\xff"}'])
    assert message_of(three_shoppers) == f"{path}:7: invalid UTF-8 at byte 14 of the line"


def test_item_without_a_title_key_is_an_error_but_a_blank_title_is_not(three_shoppers):
    path = three_shoppers / METADATA
    untitled = product("extra")
    del untitled["title"]
    lines = path.read_text().splitlines()
    write_lines(path, [*lines, product("blank", " "), product("null") | {"title": None}])
    load_benchmark(three_shoppers, "Pens", max_history=5, max_words=9, seed=0, source="test")
    write_lines(path, [*lines, untitled])
    assert message_of(three_shoppers) == f"{path}:7: the field 'title' is missing"


def test_item_pool_without_a_text_is_an_error(three_shoppers):
    path = three_shoppers / ITEMS
    write_lines(path, [*path.read_text().splitlines(), {"item_id": "x", "category": "Care"}])
    assert message_of(three_shoppers) == f"{path}:4: the field 'metadata' is missing"


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "bad block"])
def test_damaged_gzip_is_named(three_shoppers, damage):
    plain = three_shoppers / REVIEWS
    path = plain.with_suffix(".jsonl.gz")
    packed = gzip.compress(plain.read_bytes() * 200)
    plain.unlink()
    path.write_bytes(
        {
            "truncated": packed[: len(packed) // 2],
            "not gzip": b"plain text",
            "bad block": packed[:10] + b"\xff" * 20 + packed[30:],
        }[damage]
    )
    message = message_of(three_shoppers)
    assert str(path) in message
    assert "cannot be read past line" in message


HEADER = "qid,query,item_id,user_id,ori_rating,ori_review\n"
CSV_FAULTS = {
    "": r"test\.csv is empty",
    HEADER: r"test\.csv is empty: it has no rows; fetch it again",
    "qid,query,asin\n1,a pen,p\n": r"lacks the columns item_id, user_id; its header is qid,",
    HEADER + '1,"a\npen",p,u,5,x\n2,b,,u,5,x\n': r"test\.csv:4: the column item_id has no value",
    HEADER + "1,a,p,u,5,x\n1,b,q,u,5,x\n": r"test\.csv:3: the qid 1 appears a second time",
    HEADER + f"1,a,p,u,5,{'x' * csv.field_size_limit()}y\n"
    '1,b,q,u,5,"x\n\ny"\n': r"test\.csv:3: the qid 1 appears a second time",
    HEADER + "1,a,p,u,5,x\n2,b,p,u\n": r"test\.csv:3: 4 values where the header has 6",
    HEADER + '1,a,p,u,5,x\n2,"b,p,u,5,x\n': r"test\.csv:3: malformed CSV",
}


@pytest.mark.parametrize(("text", "fault"), CSV_FAULTS.items())
def test_faulty_queries_file_is_explained(three_shoppers, text, fault):
    (three_shoppers / QUERIES).write_text(text)
    assert re.search(fault, message_of(three_shoppers))


@pytest.mark.parametrize("name", [REVIEWS, METADATA, ITEMS])
def test_a_file_without_rows_is_told_from_one_without_what_is_looked_for(three_shoppers, name):
    path = three_shoppers / name
    path.write_bytes(b"")
    assert message_of(three_shoppers) == f"{path} is empty: it has no rows; fetch it again"


@pytest.mark.parametrize("what", ["folder", "dead link"])
@pytest.mark.parametrize("name", [REVIEWS, METADATA])
def test_what_has_the_name_of_a_file_and_is_none_is_named(three_shoppers, name, what):
    path = three_shoppers / name
    path.unlink()
    path.mkdir() if what == "folder" else path.symlink_to(three_shoppers / "nowhere")
    assert message_of(three_shoppers).startswith(f"{path} is no file, or a link to none")


def test_categories_are_told_by_what_the_command_line_calls_them(three_shoppers):
    (three_shoppers / REVIEWS).rename(three_shoppers / REVIEWS.replace("Pens", "Pet_Supplies"))
    (three_shoppers / METADATA).rename(three_shoppers / METADATA.replace("Pens", "Pet_Supplies"))
    assert message_of(three_shoppers, "Books").endswith("that is there (pet_supplies)")
    for folder, name in (("review_categories", "Books"), ("meta_categories", "meta_Books")):
        row = review("u9", "b", 1) | product("b")
        write_lines(three_shoppers / "raw" / folder / f"{name}.jsonl", [row])
    assert message_of(three_shoppers, "Books").endswith("(with queries: pet_supplies 3)")


def test_the_queries_file_may_be_gzipped(three_shoppers):
    settings = {"max_history": 5, "max_words": 120, "seed": 0, "source": "test"}
    first = load_benchmark(three_shoppers, "Pens", **settings)
    path = three_shoppers / QUERIES
    plain = path.read_bytes()
    path.unlink()
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(plain))
    assert load_benchmark(three_shoppers, "Pens", **settings).queries == first.queries
    packed.write_bytes(gzip.compress(plain + b"q-u1,a,b,c,5,x\r\n"))
    assert f"{packed}:" in message_of(three_shoppers)
    assert "the qid q-u1 appears a second time (qids repeated: 1)" in message_of(three_shoppers)


def test_invalid_utf8_in_the_queries_file_is_named(three_shoppers):
    path = three_shoppers / QUERIES
    path.write_bytes(path.read_bytes() + b"9,\xff,p,u,5,x\n")
    assert re.search(r"test\.csv:\d+: invalid UTF-8", message_of(three_shoppers))


def test_columns_of_the_queries_file_may_come_in_any_order(three_shoppers: Path):
    settings = {"max_history": 5, "max_words": 120, "seed": 0, "source": "test"}
    first = load_benchmark(three_shoppers, "Pens", **settings)
    path = three_shoppers / QUERIES
    rows = [f"u{n},q-u{n},u{n}b,a pen for u{n}" for n in (1, 2, 3)]
    path.write_text("\ufeffuser_id,qid,item_id,query\n" + "\n".join(rows) + "\n")
    assert load_benchmark(three_shoppers, "Pens", **settings).queries == first.queries
