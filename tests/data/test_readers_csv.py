"""CSV files: what is read agrees with Python's csv module, and faults are told by line."""

import csv
import gzip
import random
from pathlib import Path

import pytest
from reading import NOON, counted_rows_of, fault_of, rows_of

from memrerank.data.readers import Kind

HEADER = b"user,number,time\n"
TEXTS = {"a": Kind.text, "b": Kind.text}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.csv"


def test_columns_come_in_any_order_and_others_are_ignored(path):
    path.write_text(f'rating,time,user,number\n5.0,{NOON},ann,-7\n,0,"bob",0\n')
    assert counted_rows_of(path) == (2, [("ann", -7, NOON), ("bob", 0, 0)])


TRICKY = [
    ["plain", "two words"],
    ["comma, inside", 'a "quoted" word'],
    ["line\nbreak", "line\r\nbreak"],
    ["\n1,not,a row\n2,nor,this\n", '"'],
    ["naïve café 日本語 🖊", "\u2028 and \x0b are no line ends"],
    [" blanks around ", "#no comment"],
    ["NULL", "None"],
    ["it's", "back\\slash\\"],
]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("packed", [False, True])
def test_tricky_values_are_read_as_pythons_csv_reads_them(
    path, line_end, encoding, quoting, packed
):
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, lineterminator=line_end, quoting=quoting)
        writer.writerows([["b", "a"], *TRICKY])
    with path.open(encoding="utf-8-sig", newline="") as file:
        expected = [(row["a"], row["b"]) for row in csv.DictReader(file)]
    if packed:
        data = path.read_bytes()
        path = path.with_name("some.csv.gz")
        path.write_bytes(gzip.compress(data))
    assert expected == [(a, b) for b, a in TRICKY]
    assert counted_rows_of(path, fields=TEXTS) == (len(TRICKY), expected)


def test_line_breaks_in_values_do_not_mislead_the_parallel_reader(path):
    draw = random.Random(7)
    parts = ["\n1,a\n2,b\n", '"', '""', "x,y", "\r\n", ',",', "word " * 150, '\n"q",w\n']
    rows = [
        (str(number), "x" + "".join(draw.choices(parts, k=draw.randrange(12))))
        for number in range(40_000)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("a", "b"), *rows])
    assert path.stat().st_size > 20_000_000  # several times what one thread reads at once
    assert counted_rows_of(path, fields=TEXTS) == (len(rows), rows)


def test_blank_lines_and_a_missing_last_line_end_are_no_rows(path):
    path.write_bytes(HEADER + b"\nann,1,2\n\n\nbob,3,4")
    assert counted_rows_of(path) == (2, [("ann", 1, 2), ("bob", 3, 4)])
    path.write_bytes(b"a\n1\n\n2\n")
    assert counted_rows_of(path, fields={"a": Kind.integer}) == (2, [(1,), (2,)])


def test_header_alone_has_no_rows(path):
    path.write_bytes(HEADER)
    assert counted_rows_of(path) == (0, [])


def test_optional_columns_are_json_texts_and_may_be_absent(path):
    path.write_bytes(b'a,b,c\n1,"say ""hi""",\n2,[3],x\n')
    read = rows_of(path, fields={"a": Kind.integer}, optional=("b", "c", "d"))
    assert read == [(1, r'"say \"hi\""', None, None), (2, '"[3]"', '"x"', None)]


def test_nullable_fields_may_be_empty(path):
    path.write_bytes(HEADER + b'ann,,\n"","",5\n')
    assert rows_of(path, nullable=("user", "number", "time")) == [
        ("ann", None, None),
        (None, None, 5),
    ]
    assert fault_of(path, nullable=("user", "time")) == ":2: the column number has no value"


def test_a_name_with_wildcards_means_one_file(tmp_path):
    folder = tmp_path / "year=2023"  # no partition either
    folder.mkdir()
    (folder / "a.csv").write_bytes(HEADER + b"ann,1,2\n")
    path = folder / "[ab]*.csv"
    path.write_bytes(HEADER + b"bob,1,2\n")
    assert rows_of(path) == [("bob", 1, 2)]


ROW_FAULTS = {
    b"ann,1": "2 values where the header has 3",
    b"ann,1,2,": "4 values where the header has 3",
    b'ann,1,2,""': "4 values where the header has 3",
    b"ann,1,2,x": "4 values where the header has 3",
    b",1,2": "the column user has no value",
    b'"",1,2': "the column user has no value",
    b"ann,,2": "the column number has no value",
    b"ann,1.0,2": "the field 'number' must be an integer, found 1.0",
    b"ann,1e3,2": "the field 'number' must be an integer, found 1e3",
    b"ann, 1,2": "the field 'number' must be an integer, found  1",
    b"ann,007,2": "the field 'number' must be an integer, found 007",
    b"ann,+1,2": "the field 'number' must be an integer, found +1",
    b"ann,1,noon": "the field 'time' must be an integer, found noon",
    b"ann,9223372036854775808,2": (
        "the field 'number' is 9223372036854775808, which does not fit in 64 bits"
    ),
    b"ann,1,1588687728": (
        "the field 'time' is 1588687728, which looks like seconds; it must be UTC milliseconds"
    ),
    b"ann,1,-1": "the field 'time' is -1, which is before 1970; it must be UTC milliseconds",
    b"ann,1,1588687728923000": (
        "the field 'time' is 1588687728923000, which looks like micro- or nanoseconds; "
        "it must be UTC milliseconds"
    ),
    b"\xff,1,2": "invalid UTF-8; write the file in UTF-8",
    b'"an"n,1,2': ("malformed CSV (',' expected after '\"'); is a quote missing or not doubled?"),
    b"ann,1,2\r": (
        r"the row ends with '\r\n' and the header with '\n'; "
        "write the file with one line ending throughout"
    ),
}


@pytest.mark.parametrize(("row", "fault"), ROW_FAULTS.items())
def test_a_faulty_row_is_told_by_the_line_where_it_starts(path, row, fault):
    path.write_bytes(HEADER + b'"an\nn",1,2\n\n' + row + b"\nbob,3,4\n")
    assert fault_of(path) == f":5: {fault}"
    # ... although `where` would have dropped it
    assert fault_of(path, where="user = 'bob'") == f":5: {fault}"


def test_a_quote_that_is_never_closed_is_told_by_the_line_where_it_opens(path):
    path.write_bytes(HEADER + b'ann,1,2\n"bob,3,4\n' + b"eve,5,6\n" * 9)
    assert fault_of(path).startswith(":3: malformed CSV (unexpected end of data)")
    path.write_bytes(HEADER + b'ann,1,2\n"bob,3,4\n' + b"eve,5,6\n" * 300_000)
    assert fault_of(path).startswith(":3: malformed CSV (field larger than field limit")


def test_a_long_value_is_no_fault(path):
    value = "x" * 1_000_000
    path.write_text(f"a,b\n1,{value}\n")
    assert rows_of(path, fields=TEXTS) == [("1", value)]
    path.write_text(f"a,b\n1,{value}\n2,\n")
    assert fault_of(path, fields=TEXTS) == ":3: the column b has no value"
    assert csv.field_size_limit() == 131_072  # Python's own is as it was


HEADER_FAULTS = {
    b"": " is empty: it has no header; fetch or write it again",
    b"\n\nuser,number,time\n": ":1: the first line must be the header; it is blank",
    b"us\xffer,number,time\n": ":1: invalid UTF-8; write the file in UTF-8",
    b"user,time\n": ":1: the file lacks the column number; its header is user,time",
    b"user;number;time\n": (
        ":1: the columns are separated by semicolons; separate them by commas "
        "(the header is user;number;time)"
    ),
    b"user\tnumber\ttime\n": (
        ":1: the columns are separated by tabs; separate them by commas "
        "(the header is user\tnumber\ttime)"
    ),
    b"user\n": ":1: the file lacks the columns number, time; its header is user",
    b"User,number,time\n": ":1: the file lacks the column user; its header is User,number,time",
    b"user,number,time,user\n": (
        ":1: two columns are called user; its header is user,number,time,user"
    ),
    b'user,"number,time\n': ":1: malformed CSV (unexpected end of data)",
}


@pytest.mark.parametrize(("header", "fault"), HEADER_FAULTS.items())
def test_faulty_header(path, header, fault):
    path.write_bytes(header)
    assert fault_of(path) == fault


def test_damaged_gzip(tmp_path):
    path = tmp_path / "some.csv.gz"
    packed = gzip.compress(HEADER + b"".join(b"ann,%d,2\n" % n for n in range(100_000)))
    for damage in (packed[: len(packed) // 2], packed[:-1], packed[:10] + b"\xff" * 20):
        path.write_bytes(damage)
        assert fault_of(path).startswith(": cannot be read past line ")
    path.write_bytes(HEADER)
    assert fault_of(path) == (
        ": cannot be read past line 0 (Not a gzipped file (b'us')); "
        "the file is damaged or was not copied whole: fetch it again"
    )
