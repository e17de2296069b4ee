"""CSV files for spreadsheets, with texts that strangers wrote: names of folders, messages of their programs."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from marl.cli.wording import in_one_line

FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute
BYTE_ORDER_MARK = "\ufeff"  # without it Excel reads Chinese as something else


def write_spreadsheet(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a CSV file as a whole (UTF-8 with a byte order mark); a value that a row lacks, or None, is empty."""
    from arena.files import write_user_file  # loads the arena, which help does without

    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_cell(column) for column in columns])
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_user_file(path, BYTE_ORDER_MARK + text.getvalue())


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if not isinstance(value, str):
        return value
    line = in_one_line(value)
    return f"'{line}" if line.startswith(FORMULA) else line
