"""Figures of speed and strength: the texts quote those of docs/figures, each is quoted, and the list is up to date."""

from pathlib import Path

import pytest
from helpers.command import ROOT
from helpers.script import load_script

figures = load_script("figures")
KNOWN = figures.read_figures()
TEXTS = [str(file.relative_to(ROOT)) for file in figures.texts()]
WHOLE = '{value: "14.8 s", what: a run, command: train, machine: H200, commit: 0123456, date: 2026-11-18}'


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_quotes_the_figures_that_are_written_down(name) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert figures.filled(ROOT / name, figures.by_name(KNOWN)) == text, "run python scripts/make_docs.py"
    assert text.count("<!--figure") == text.count("<!--/figure-->") == len(figures.names_in(text)), "a marker is broken"


def test_every_figure_is_quoted() -> None:
    quoted = {name for file in TEXTS for name in figures.names_in((ROOT / file).read_text(encoding="utf-8"))}
    assert sorted(figures.by_name(KNOWN).keys() - quoted) == []


def test_the_list_of_figures_is_up_to_date() -> None:
    assert figures.PAGE.read_text(encoding="utf-8") == figures.figures_page(KNOWN), "run python scripts/make_docs.py"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_text_is_filled(tmp_path) -> None:
    zh = WHOLE.replace("}", ", zh: 14.8 秒}")
    known = figures.read_figures(write(tmp_path, speed=f"run: {zh}\n", other=f"other: {WHOLE}\n"))
    assert [*known] == ["other", "speed"]
    assert known["speed"]["run"]["commit"] == "0123456", "no number"
    text = "It takes <!--figure run-->a while<!--/figure-->, or <!--figure other--><!--/figure-->."
    for name, value in (("page.md", "14.8 s"), ("README.zh.md", "14.8 秒"), ("docs/zh/page.md", "14.8 秒")):
        page = tmp_path / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
        filled = figures.filled(page, figures.by_name(known))
        assert filled == f"It takes <!--figure run-->{value}<!--/figure-->, or <!--figure other-->14.8 s<!--/figure-->."
    row = "| 14.8 s (`run`) | a run | `train` | H200 | 0123456, 2026-11-18 |"
    assert f"## speed\n\n| figure | what | command | machine | commit, date |\n|---|---|---|---|---|\n{row}\n" in (
        figures.figures_page(known)
    )
    page.write_text("<!--figure gone-->1<!--/figure-->", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md quotes gone, which is in no file of docs/figures"):
        figures.filled(page, figures.by_name(known))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": f"run: {WHOLE}", "b": f"run: {WHOLE}"}, r"b\.yaml: run is also in a\.yaml"),
        ({"a": f"run: {WHOLE.replace('machine', 'machines')}"}, r"a\.yaml: run needs value, what, command, machine"),
        ({"a": f"run: {WHOLE.replace('14.8 s', '')}"}, r"a\.yaml: run has no value"),
        ({"a": "run: 14.8 s"}, r"a\.yaml: run needs"),
    ],
)
def test_a_mistake_in_a_file_is_told(tmp_path, files, message) -> None:
    with pytest.raises(ValueError, match=message):
        figures.read_figures(write(tmp_path, **files))
