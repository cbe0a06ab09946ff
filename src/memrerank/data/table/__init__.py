"""A shop of one's own: three tables, every rule checked before anything is made of them.

    columns.py  what the tables hold
    cells.py    a file of any format as columns of text
    loading.py  one step a table: a Parquet copy, row by row as in the file
    rules.py    what must hold, each rule a query for the rows that break it
    report.py   the rows that broke a rule, as one message
    store.py    the joins, up to a RawStore

Nothing is dropped on the way: a table that breaks a rule ends the run, and all rules of all tables
are checked before it does.
"""

from memrerank.data.table.store import TableSettings, table_store

__all__ = ["TableSettings", "table_store"]
