"""The notebooks of examples/: they run from the first cell to the last, and hold no outputs."""

import json
import os
import re

import pytest
from helpers.command import ROOT
from helpers.forking import Forked
from helpers.run_notebook import run_notebook
from helpers.training import finish

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# So that the cells take seconds.
SMALL = (
    "matches=200=>matches=2",
    "eval_matches=2=>eval_matches=2, eval_opponents='level1', eval_interval=0, body=(8, 8), threads=1",
    '"level4"=>"level1"',
    "max_episodes=1_000_000=>max_episodes=16, matches=8",
    "matches=64=>matches=2",
)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_holds_no_outputs(file) -> None:
    notebook = json.loads(file.read_text())
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        assert not cell["metadata"]
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert file.read_text() == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def test_the_quick_start_runs(tmp_path) -> None:
    notebook = str(ROOT / "examples" / "quick_start.ipynb")
    done = finish(Forked(run_notebook, notebook, str(tmp_path), *SMALL, environment=dict(os.environ)))
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"^champion won \d+\.\d% \(\d+\.\d% to \d+\.\d%\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^won .* against level1$", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^shows namespace\(html=\d{5,}\)$", done.stdout, re.MULTILINE)) == 2
    assert re.search(r"^shows namespace\(image=\d{4,}\)$", done.stdout, re.MULTILINE)
    assert "random moves: mean score" in done.stdout
    assert (tmp_path / "runs" / "snakes_3v3").is_dir()
