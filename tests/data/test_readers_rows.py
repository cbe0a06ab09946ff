"""What holds for files of every format."""

import duckdb
import pytest
from reading import PURCHASES, counted_rows_of, fault_of, rows_of

from memrerank.data.readers import SUFFIXES, Kind, first_line, read_rows


@pytest.fixture
def files(tmp_path):
    """The same two rows in each format."""
    with duckdb.connect() as connection:
        connection.execute(
            """CREATE TABLE two AS SELECT * FROM (VALUES ('ann', 1, 2), ('bob', 3, 4))
               AS two("user", number, time)"""
        )
        for suffix in SUFFIXES:
            format = {"jsonl": "json", "csv": "csv", "parquet": "parquet"}[suffix.split(".")[1]]
            packed = ", COMPRESSION gzip" if suffix.endswith(".gz") else ""
            connection.execute(f"COPY two TO '{tmp_path}/two{suffix}' (FORMAT {format}{packed})")
    return {suffix: tmp_path / f"two{suffix}" for suffix in SUFFIXES}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_format_gives_the_same_table(files, suffix):
    assert counted_rows_of(files[suffix]) == (2, [("ann", 1, 2), ("bob", 3, 4)])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_where_may_ask_another_table_and_the_count_is_of_all_rows(files, suffix):
    asking = "user IN (SELECT name FROM known)"
    assert counted_rows_of(files[suffix], where=asking) == (2, [("ann", 1, 2)])
    assert counted_rows_of(files[suffix], where="NULL") == (2, [])
    assert counted_rows_of(files[suffix], where="number = 3 OR time = 2")[1] == [
        ("ann", 1, 2),
        ("bob", 3, 4),
    ]


def test_files_of_several_formats_make_one_table(files):
    number, rows = counted_rows_of(*files.values(), where="user = 'bob'")
    assert number == 2 * len(SUFFIXES)
    assert rows == [("bob", 3, 4)] * len(SUFFIXES)


def test_the_second_file_is_named_when_it_is_at_fault(files, tmp_path):
    faulty = tmp_path / "faulty.csv"
    faulty.write_text("user,number,time\nann,x,2\n")
    assert fault_of(faulty) == ":2: the field 'number' must be an integer, found x"
    with pytest.raises(Exception, match=rf"^{faulty}:2: "):
        rows_of(files[".csv"], faulty, files[".jsonl"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_types_of_the_table(files, suffix):
    with duckdb.connect() as connection:
        read_rows(connection, "rows", [files[suffix]], PURCHASES, optional=("more",))
        described = connection.execute("DESCRIBE rows").fetchall()
    assert [(name, sql_type) for name, sql_type, *_ in described] == [
        ("user", "VARCHAR"),
        ("number", "BIGINT"),
        ("time", "BIGINT"),
        ("more", "JSON"),
    ]


def test_the_table_replaces_one_of_the_same_name(files):
    with duckdb.connect() as connection:
        for _ in range(2):
            read_rows(connection, "rows", [files[".csv"]], PURCHASES)
        assert connection.execute("SELECT count(*) FROM rows").fetchall() == [(2,)]


def test_a_file_that_is_not_there(tmp_path):
    assert fault_of(tmp_path / "none.csv") == " does not exist or is no file"
    (tmp_path / "folder.csv").mkdir()
    assert fault_of(tmp_path / "folder.csv") == " does not exist or is no file"


def test_a_name_without_a_known_suffix(tmp_path):
    assert fault_of(tmp_path / "some.tsv") == (
        ": its name does not tell its format; it must end in one of "
        ".jsonl, .jsonl.gz, .csv, .csv.gz, .parquet"
    )


def test_a_mistake_in_where_is_not_blamed_on_the_file(files):
    with duckdb.connect() as connection, pytest.raises(duckdb.BinderException, match="nowhere"):
        read_rows(connection, "rows", [files[".csv"]], PURCHASES, where="nowhere = 1")


def test_too_little_memory_is_not_blamed_on_the_file(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("a,b\n" + "".join(f"{n},{'word ' * 20}\n" for n in range(100_000)))
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '5MB'")
        with pytest.raises(Exception, match=r"large\.csv: .*; raise it \(") as caught:
            read_rows(connection, "rows", [path], {"a": Kind.text, "b": Kind.text})
    assert "data.memory_limit" in str(caught.value)


def test_first_line():
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
