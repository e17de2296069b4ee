"""The oldest Python that a text needs: of the syntax and names of each version, and what vermin says of them."""

import re
import subprocess
import sys

import pytest
from helpers.exporting import ENCODERS, player

from marl.export.dense_layers import policy_layers
from marl.export.oldest_python import NAMES, OLDEST, newest_need
from marl.export.submission_file import submission_source

NEEDED = {
    "(a := 1)": 8,
    "def f(a, /): pass": 8,
    "lambda a, /: a": 8,
    "f'{x=}'": 8,
    "f'{x = !r:>3}'": 8,
    "from functools import lru_cache\n@lru_cache\ndef f(): pass": 8,
    "def f():\n    return *a, 1": 8,
    "import math as m\nm.prod([])": 8,
    "from math import prod": 8,
    "for x in *a, 1: pass": 9,
    "x: list[int] = []": 9,
    "{1: 2} | {}": 9,
    "'a'.removeprefix('b')": 9,
    "@a[0]\ndef f(): pass": 9,
    "with (open(a) as b, c): pass": 9,
    "zip(a, b, strict=True)": 10,
    "match x:\n    case 1: pass": 10,
    "def f(x: int | None): pass": 10,
    "from __future__ import annotations": 7,
    "from dataclasses import dataclass": 7,
    "import dataclasses": 7,
    "try: pass\nexcept* A: pass": 11,
    "x[*a]": 11,
    "type X = int": 12,
    "def f[T](): pass": 12,
    "f'{\"a\" + 'b'}'": 12,
}
OLD = [
    "f'{{x=}} {x!r} a={x} {a==b} {a!=b} {f(b=1)}'",
    "f'{\"a\"}' 'b'",
    "with (a): pass",
    "with (a) as b, (c) as d: pass",
    "with open(a) as b, c: pass",
    "def f():\n    return (*a, 1)",
    "x[(*a,)]",
    "a | b",
    "@a.b(1)\ndef f(): pass",
    "getattr(int, 'bit_count', None)",
    "1_000",
]


@pytest.mark.parametrize(("text", "minor"), NEEDED.items(), ids=NEEDED)
def test_what_is_newer_is_found(text, minor) -> None:
    if (3, minor) > sys.version_info[:2]:
        with pytest.raises(SyntaxError):
            newest_need(text)
        return
    need = newest_need(f"x = 0\n{text}\n")
    assert need is not None
    assert need.minor == minor
    assert need.line in range(2, text.count("\n") + 3)


@pytest.mark.parametrize("text", OLD)
def test_what_is_old_is_let_pass(text) -> None:
    assert newest_need(text) is None


def test_the_newest_counts_and_its_first_line_is_told() -> None:
    need = newest_need("(a := 1)\nmath = 2\nzip(strict=1)\nimport math\nmath.prod\nzip(strict=2)\n")
    assert need == (10, 3, "zip(..., strict=)")


@pytest.mark.parametrize("plan_ms", [None, 50.0])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_exported_submissions_need_the_oldest(encoder, plan_ms) -> None:
    who = player(encoder, value=True)
    assert newest_need(submission_source(policy_layers(who), who.encoder, "it", plan_ms)) is None


# It misses stars, unions and types of parameters and these names; a parenthesis after `with` is one around all to it.
VERMIN_DIFFERS = re.compile(r"\*a|int \| None|f\[T\]|with \(|re\.(Match|Pattern)")


def test_vermin_says_the_same(tmp_path) -> None:
    """Of all names, and of the syntax that this Python can read."""
    pytest.importorskip("vermin", reason="vermin is not installed")
    texts = {text: minor for text, minor in NEEDED.items() if (3, minor) <= sys.version_info[:2]}
    texts |= dict.fromkeys(OLD, OLDEST)
    for minor, names in NAMES.items():
        for name in names.split():
            module = name.rpartition(".")[0]
            texts[f"import {module}\n{name}" if module else f"{name}()"] = minor
    texts = {text: minor for text, minor in texts.items() if not VERMIN_DIFFERS.search(text)}
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_text(text + "\n")
    code = "import vermin; vermin.main()"
    flags = ["--versions", "--no-tips", "--eval-annotations", "--format", "parsable", "--processes=1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *flags, *(tmp_path / f"{number}.py" for number in range(len(texts)))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    said: dict[int, int] = {}
    for line in done.stdout.splitlines():
        path, _, _, _, newest, _ = line.rsplit(":", 5)
        if path.endswith(".py") and (found := newest.strip().lstrip("!~")).startswith("3."):
            number = int(path.rpartition("/")[2].removesuffix(".py"))
            said[number] = max(said.get(number, 0), int(found.removeprefix("3.")))
    different = {
        text: (minor, said.get(number))
        for number, (text, minor) in enumerate(texts.items())
        if max(said.get(number, 0), OLDEST) != minor
    }
    assert not different
