"""benchmarks/data_scale.py on a few thousand rows: the store is sound, the table is whole."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_benchmark_builds_a_sound_store_and_finds_its_steps_again(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks/data_scale.py", "--rows", "3000"]
    done = subprocess.run(
        [*command, "--folder", tmp_path, "--keep"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[-1].strip("| ").split(" | ")
    assert row[:2] == ["3,000", "250"]  # rows, and products at 12 rows each
    assert all(float(value.replace(",", "")) >= 0 for value in row[2:])
    assert len(row) == 7
    ratings = (tmp_path / "store-3000").glob("benchmark/0core/rating_only/*.csv")
    assert sum(len(path.read_text().splitlines()) - 1 for path in ratings) == 3000
    queries = (tmp_path / "store-3000/amazon_c4/test.csv").read_text()
    assert re.match(r'qid,"query",item_id,user_id,ori_rating,"ori_review"\n1,"I need', queries)
