"""Loads a file of scripts/, which is no package."""

import importlib.util
import sys
from types import ModuleType

from helpers.command import ROOT


def load_script(name: str) -> ModuleType:
    """The module of scripts/NAME.py; scripts import each other by name."""
    folder = str(ROOT / "scripts")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
