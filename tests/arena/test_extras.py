"""Hints for optional packages."""

import shlex
import sys
from importlib import metadata

from arena import extras
from arena.extras import ROOT, install_hint


def test_a_checkout_installs_from_itself(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sys, "executable", "/x y/python")
    monkeypatch.chdir(ROOT)
    assert install_hint("video") == "install it with: '/x y/python' -m pip install -e '.[video]'"
    monkeypatch.chdir(tmp_path)
    place = shlex.quote(f"{ROOT}[video]")
    assert install_hint("video") == f"install it with: '/x y/python' -m pip install -e {place}"


def test_elsewhere_the_packages_are_named_and_never_this_project(monkeypatch, tmp_path) -> None:
    lines = ["numpy<3", 'onnx<2,>=1.15; extra == "onnx"', "imageio<3; extra == 'video'"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    assert install_hint("onnx") == f"install it with: {shlex.quote(sys.executable)} -m pip install 'onnx<2,>=1.15'"
    assert install_hint("video").endswith("-m pip install 'imageio<3'")
