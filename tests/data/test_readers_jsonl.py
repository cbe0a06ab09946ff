"""JSON Lines: what is read agrees with Python's json module, and faults are told by line."""

import gzip
import json
from pathlib import Path

import pytest
from reading import NOON, counted_rows_of, fault_of, rows_of

from memrerank.data.readers import Kind

SOUND = b'{"user": "ann", "number": 1, "time": 2}\n'
TEXT = {"a": Kind.text}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.jsonl"


def write(path: Path, *records: object, line_end: str = "\n") -> None:
    path.write_text("".join(json.dumps(one) + line_end for one in records), newline="")


def test_keys_come_in_any_order_and_others_are_ignored(path):
    write(
        path,
        {"time": NOON, "rating": 5.0, "user": "ann", "number": -7},
        {"user": "", "number": 2**63 - 1, "time": 0, "images": [{"user": "eve"}]},
    )
    assert counted_rows_of(path) == (2, [("ann", -7, NOON), ("", 2**63 - 1, 0)])


TRICKY = [
    'a "quoted" word',
    "line\nbreak",
    "naïve 日本語 🖊",
    "\u2028",
    " ",
    "",
    "null",
    "\\",
    "\t",
    "[1]",
]


@pytest.mark.parametrize("nullable", [(), ("a",)])
@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_tricky_texts_are_read_as_pythons_json_reads_them(path, nullable, escaped, packed):
    lines = [json.dumps({"a": text}, ensure_ascii=escaped) for text in TRICKY]
    data = ("\r\n\n \n".join(lines)).encode()
    expected = [(json.loads(line)["a"],) for line in lines]
    if packed:
        path, data = path.with_name("some.jsonl.gz"), gzip.compress(data)
    path.write_bytes(data)
    assert expected == [(text,) for text in TRICKY]
    assert counted_rows_of(path, fields=TEXT, nullable=nullable) == (len(TRICKY), expected)


def test_a_byte_order_mark_is_no_fault(path):
    path.write_bytes(b"\xef\xbb\xbf" + SOUND)
    assert rows_of(path) == [("ann", 1, 2)]
    path.write_bytes(b"\xef\xbb\xbf" + SOUND + b"{}\n")
    assert fault_of(path) == ":2: the field 'user' is missing"


def test_files_without_a_line_have_no_rows(path):
    path.write_bytes(b"")
    assert counted_rows_of(path) == (0, [])
    path.write_bytes(b"\n \n")
    assert counted_rows_of(path) == (0, [])


OPTIONAL = [
    ({}, None),
    ({"b": None}, None),
    ({"b": "text"}, '"text"'),
    ({"b": '{"k": 1}'}, r'"{\"k\": 1}"'),
    ({"b": ["x", {"y": [1]}]}, '["x",{"y":[1]}]'),
    ({"b": {"k": "v"}}, '{"k":"v"}'),
    ({"b": 1.5}, "1.5"),
    ({"b": True}, "true"),
]


@pytest.mark.parametrize("nullable", [(), ("a",)])
def test_optional_keys_hold_any_json(path, nullable):
    write(path, *({"a": "x", **fields} for fields, _ in OPTIONAL))
    read = rows_of(path, fields=TEXT, optional=("b", "c"), nullable=nullable)
    assert read == [("x", text, None) for _, text in OPTIONAL]


def test_nullable_fields_may_be_null_but_not_missing(path):
    options = {"nullable": ("user", "number", "time")}
    write(path, {"user": None, "number": None, "time": None}, {"user": "b", "number": 3, "time": 4})
    assert rows_of(path, **options) == [(None, None, None), ("b", 3, 4)]
    write(path, {"user": None, "number": 1, "time": 2}, {"number": 1, "time": {"user": 1}})
    assert fault_of(path, **options) == ":2: the field 'user' is missing"
    assert (
        fault_of(path, nullable=("number",)) == ":1: the field 'user' must be a string, found null"
    )
    write(path, {"user": 5, "number": 1, "time": 2})
    assert fault_of(path, **options) == ":1: the field 'user' must be a string, found 5"
    write(path, None)
    assert fault_of(path, **options) == ":1: expected a JSON object, found null"


LINE_FAULTS = {
    b'{"user": "ann", "number": 1}': "the field 'time' is missing",
    b'{"user": 1, "number": 1, "time": 2}': "the field 'user' must be a string, found 1",
    b'{"user": "ann", "number": null, "time": 2}': (
        "the field 'number' must be an integer, found null"
    ),
    b'{"user": "ann", "number": 1.0, "time": 2}': (
        "the field 'number' must be an integer, found 1.0"
    ),
    b'{"user": "ann", "number": "1", "time": 2}': (
        "the field 'number' must be an integer, found \"1\""
    ),
    b'{"user": "ann", "number": 9223372036854775808, "time": 2}': (
        "the field 'number' is 9223372036854775808, which does not fit in 64 bits"
    ),
    b'{"user": "ann", "number": 99999999999999999999, "time": 2}': (
        "the field 'number' is 99999999999999999999, which does not fit in 64 bits"
    ),
    b'{"user": "ann", "number": 1, "time": 1588687728}': (
        "the field 'time' is 1588687728, which looks like seconds; it must be UTC milliseconds"
    ),
    b'{"user": "ann", "number": 1, "time": -1}': (
        "the field 'time' is -1, which is before 1970; it must be UTC milliseconds"
    ),
    b'{"user": "ann", "number": 1, "time": 1588687728923000}': (
        "the field 'time' is 1588687728923000, which looks like micro- or nanoseconds; "
        "it must be UTC milliseconds"
    ),
    b'{"user": "\xff"}': "invalid UTF-8 at byte 11 of the line",
    rb'{"user": "\ud83d", "number": 1, "time": 2}': r"half a character ('\ud83d') in a string",
    SOUND.strip() * 2: "broken JSON (Extra data: line 1 column 40 (char 39))",
    b'{"user": ': "broken JSON (Expecting value: line 1 column 9 (char 8))",
    b'{"user": "ann", "number": NaN, "time": 2}': "broken JSON (NaN is not JSON)",
    b"[1]": "expected a JSON object, found [1]",
    b"7": "expected a JSON object, found 7",
}


@pytest.mark.parametrize(("line", "fault"), LINE_FAULTS.items())
@pytest.mark.parametrize("nullable", [(), ("extra",)])
def test_a_faulty_line_is_told_by_its_number(path, line, fault, nullable):
    fields = {"user": Kind.text, "number": Kind.integer, "time": Kind.milliseconds}
    sound = SOUND
    if nullable:  # another way of reading
        fields["extra"] = Kind.text
        line = line.replace(b'"time":', b'"extra": null, "time":')
        sound = SOUND.replace(b"}", b', "extra": "x"}')
        fault = fault.replace("column 40 (char 39)", "column 55 (char 54)")
    path.write_bytes(sound * 2 + b"\n" + line + b"\n" + sound)
    assert fault_of(path, fields=fields, nullable=nullable) == f":4: {fault}"
    # ... although `where` would have dropped it
    options = {"nullable": nullable, "where": "user = 'nobody'"}
    assert fault_of(path, fields=fields, **options) == f":4: {fault}"


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        ("1588687728", "2", "1: the field 'time' is 1588687728, which looks like seconds"),
        ("499999999", "500000000", "2: the field 'time' is 500000000, which looks like seconds"),
        ("10000000000", "9999999999", "2: the field 'time' is 9999999999, which looks like sec"),
        ("99999999999999", "100000000000000", "2: the field 'time' is 100000000000000, which lo"),
    ],
)
def test_borders_of_what_may_be_milliseconds(path, first, second, fault):
    path.write_text(f'{{"time": {first}}}\n{{"time": {second}}}\n')
    assert fault_of(path, fields={"time": Kind.milliseconds}).startswith(":" + fault)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "some.jsonl.gz"
    packed = gzip.compress(SOUND * 5 + b"{}\n" + SOUND * 20_000)
    path.write_bytes(packed[:-20])
    assert fault_of(path) == ":6: the field 'user' is missing"  # the first fault
    packed = gzip.compress(SOUND * 20_000)
    for damage in (packed[:-20], packed[:-1], packed[:-8] + b"\0" * 8, packed[:10] + b"\xff" * 20):
        path.write_bytes(damage)
        assert fault_of(path).startswith(": cannot be read past line ")
    path.write_bytes(SOUND)
    assert fault_of(path).startswith(": cannot be read past line 0 (Not a gzipped file")
