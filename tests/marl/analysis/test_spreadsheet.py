"""CSV files: what a spreadsheet makes of them."""

import csv

from marl.analysis.spreadsheet import write_spreadsheet


def test_names_of_strangers_stay_texts(tmp_path):
    names = ["李四", "=1+1", "@x", "-2", "two\nlines", 'a "quote", and a comma']
    rows = [{"name": name, "won": 0.123456, "errors": -1} for name in names]
    write_spreadsheet(tmp_path / "x.csv", ("name", "won", "errors", "time"), rows)
    data = (tmp_path / "x.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfname,")
    table = list(csv.DictReader(data.decode("utf-8-sig").splitlines()))
    assert [row["name"] for row in table] == ["李四", "'=1+1", "'@x", "'-2", "two?lines", 'a "quote", and a comma']
    assert {(row["won"], row["errors"], row["time"]) for row in table} == {("0.1235", "-1", "")}
