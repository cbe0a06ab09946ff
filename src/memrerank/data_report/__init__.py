"""What a benchmark is made of, in numbers: measured, drawn and written as Markdown.

It reads what `data` and `retrieval` made; neither knows of it.
"""

from memrerank.data_report.coverage import Coverage, measure_coverage
from memrerank.data_report.facts import DataFacts, collect_facts, facts_metrics
from memrerank.data_report.writing import REPORT_FILE, write_report

__all__ = [
    "REPORT_FILE",
    "Coverage",
    "DataFacts",
    "collect_facts",
    "facts_metrics",
    "measure_coverage",
    "write_report",
]
