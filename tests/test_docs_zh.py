"""The pages in Chinese, docs/zh, say what the English ones say: the same parts, code, figures and links."""

import posixpath
import re

import pytest
from helpers.command import ROOT

DOCS = ROOT / "docs"
CHINESE = {file.name: file.read_text(encoding="utf-8") for file in sorted((DOCS / "zh").glob("*.md"))}
PAGES = [*CHINESE]
# From one language to the other, at the head of both first pages.
SWITCH = {("docs/index.md", "docs/zh/index.md"), ("docs/zh/index.md", "docs/index.md")}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")


def english(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def code_blocks(text: str) -> list[str]:
    """The fenced blocks of a page, then the indented ones."""
    return FENCED.findall(text) + INDENTED.findall(FENCED.sub("", text))


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return INDENTED.sub("", FENCED.sub("", text))


def outline(text: str) -> list[str]:
    """Headings by their level, items of lists, rows of tables and pictures, in the order of the page."""
    return re.findall(r"^(?:#+(?= )| *-(?= )| *\d+\.(?= )|\|(?= )|!(?=\[))", prose(text), re.MULTILINE)


def figures(text: str) -> list[str]:
    return sorted(re.findall(r"<!--figure ([\w.-]+)-->.*?<!--/figure-->", text, re.DOTALL))


def inline_code(text: str) -> set[str]:
    return {" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(text))}


def links(page: str, text: str) -> list[str]:
    """Where a page leads to: addresses, and files from the root of the project, with their anchors."""
    folder = posixpath.dirname(page)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    whole = [to if "://" in to else posixpath.normpath(posixpath.join(folder, to)) for to in targets]
    whole = [page + to.removeprefix(f"{folder}/") if to.startswith(f"{folder}/#") else to for to in whole]
    return sorted(to for to in whole if (page, to) not in SWITCH)


def test_the_pages_were_found() -> None:
    assert {"index.md", "rules.md", "training.md", "submission.md", "opponents.md", "troubleshooting.md"} <= {*PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_both_have_the_same_parts(name) -> None:
    assert outline(CHINESE[name]) == outline(english(name))


@pytest.mark.parametrize("name", PAGES)
def test_both_have_the_same_code(name) -> None:
    assert code_blocks(CHINESE[name]) == code_blocks(english(name))
    assert inline_code(CHINESE[name]) == inline_code(english(name))


@pytest.mark.parametrize("name", PAGES)
def test_both_quote_the_same_figures(name) -> None:
    assert figures(CHINESE[name]) == figures(english(name))


@pytest.mark.parametrize("name", PAGES)
def test_both_lead_to_the_same_places(name) -> None:
    """A page in Chinese leads to pages in Chinese where there are some."""
    expected = links(f"docs/{name}", english(name))
    for other in PAGES:
        expected = [re.sub(rf"^docs/{re.escape(other)}(?=#|$)", f"docs/zh/{other}", to) for to in expected]
    assert links(f"docs/zh/{name}", CHINESE[name]) == sorted(expected)


@pytest.mark.parametrize("name", PAGES)
def test_anchors_of_pages_in_chinese_exist(name) -> None:
    """Headings in Chinese have no anchors that could be written; those that are used have the English ones."""
    for to in links(f"docs/zh/{name}", CHINESE[name]):
        page, _, anchor = to.partition("#")
        if anchor and page.startswith("docs/zh/"):
            assert f'<a id="{anchor}"></a>' in CHINESE[posixpath.basename(page)], to


def test_both_readmes_have_the_same_parts() -> None:
    """Their commands, links and figures are compared by test_readme_commands.py."""
    levels = r"^#+(?= )"
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md")]
    assert re.findall(levels, prose(texts[0]), re.M) == re.findall(levels, prose(texts[1]), re.M)
    assert len(code_blocks(texts[0])) == len(code_blocks(texts[1]))


@pytest.mark.parametrize("name", ["README.zh.md", *(f"docs/zh/{name}" for name in PAGES)])
def test_one_word_for_one_thing(name) -> None:
    """Words that were other words for the same things."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [word for word in ("团队", "落子", "笔记本", "指名", "强度") if word in text] == []
