"""Files of rows, read into DuckDB tables with every row checked.

    kinds.py      what a column may hold, in SQL and in Python
    jsonl.py      JSON Lines
    delimited.py  CSV
    parquet.py    Parquet
    faults.py     what is common to naming a fault
    rows.py       read_rows, which the data sources call

DuckDB parses, checks and filters. Only after it has met a fault does Python go through the file,
to say which row it is and what is wrong with it.
"""

from memrerank.data.readers.faults import first_line
from memrerank.data.readers.kinds import Kind
from memrerank.data.readers.rows import SUFFIXES, read_rows

__all__ = ["SUFFIXES", "Kind", "first_line", "read_rows"]
