"""docs/ as a site: it builds without a network, its generated page is up to date, and what its pages name exists."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from helpers.command import ROOT
from helpers.script import load_script

from opponents.scheduler import ABOUT_STRATEGIES, LADDER

DOCS = ROOT / "docs"
TEXTS = {file.name: file.read_text(encoding="utf-8") for file in sorted(DOCS.glob("*.md"))}
# Words of what every user may read: without the list of flags, pages for contributors and for courses, and docs/log.
MOST_WORDS, OTHERS = 14_000, ("flags.md", "architecture.md", "course.md", "week.md")
ROOT_TEXTS = {file.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("*.md"))}


def test_the_page_of_flags_is_what_the_dataclasses_say() -> None:
    assert TEXTS["flags.md"] == load_script("make_docs").flags_page(), "run python scripts/make_docs.py"


def test_the_book_can_be_read() -> None:
    words = {name: len(re.sub(r"<!--.*?-->", "", text).split()) for name, text in TEXTS.items() if name not in OTHERS}
    assert sum(words.values()) <= MOST_WORDS, words


def test_the_schedules_can_be_drawn() -> None:
    make_docs = load_script("make_docs")
    for strategy, _ in ABOUT_STRATEGIES:
        mixes = make_docs.mixes(strategy)
        assert len(mixes) == make_docs.STEPS
        assert all(abs(sum(mix.values()) - 1) < 1e-9 for mix in mixes)


def test_opponents_and_strategies_are_all_described() -> None:
    page = TEXTS["opponents.md"]
    for name in LADDER:
        assert f"\n- `{name}`: " in page
    for name, about in ABOUT_STRATEGIES:
        assert f"\n- `{name}`: {about}\n" in page


@pytest.mark.parametrize("name", [*ROOT_TEXTS, *TEXTS])
def test_every_file_that_a_page_names_exists(name) -> None:
    text = ROOT_TEXTS.get(name) or TEXTS[name]
    named = re.findall(r"`((?:arena|opponents|marl|tests|configs|scripts|docs)/[\w/.]+\.\w+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ROOT_TEXTS)
def test_every_link_of_a_text_in_the_root_leads_somewhere(name) -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", ROOT_TEXTS[name]) if "://" not in target]
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_messages_of_troubleshooting_are_those_of_the_program() -> None:
    files = [
        ROOT / "scripts" / "venv.sh",
        *(file for name in ("arena", "opponents", "marl") for file in (ROOT / name).rglob("*.py")),
    ]
    # Without the quotes at which a long text is split over lines.
    source = "\n".join(re.sub(r'"\n\s+f?"', "", file.read_text(encoding="utf-8")) for file in files)
    # A message, or several, begin an entry of a list; what is behind the colon is advice.
    entries = re.findall(r"^- ((?:`[^`]+`(?:,\s+)?)+):\s", TEXTS["troubleshooting.md"], re.MULTILINE)
    messages = [message for entry in entries for message in re.findall(r"`([^`]+)`", entry)]
    assert len(messages) >= 20
    parts = [part.strip(" ;:,") for message in messages for part in message.split("…")]
    assert [part for part in parts if part not in source] == []


def test_the_site_builds_and_asks_no_other_server(tmp_path) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed (it needs Python 3.11.5; requirements-dev.lock has it)")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    pages = {file.relative_to(site).as_posix(): file.read_text(encoding="utf-8") for file in site.rglob("*.html")}
    assert {name.replace(".md", ".html") for name in TEXTS} <= pages.keys()
    log = [f"log/{file.stem}.html" for file in (DOCS / "log").glob("*.md")]
    assert [name for name in log if f'href="{name}"' not in pages["index.html"]] == [], "not in the navigation"
    for name, page in pages.items():
        fetched = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s\">]+", page)
        assert fetched == [], name
