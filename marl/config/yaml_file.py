"""Settings from a YAML file; every mistake in it is a UserError of one line that names the file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.config.values import shorten
from marl.errors import UserError

DEPTH_MAX = 100
_BRACKET = re.compile(r"[\[\]{}]")


@dataclass(frozen=True)
class Layer:
    """Settings from one source, nested by section; messages name the source."""

    source: str
    values: Mapping[str, Any]


def read_yaml(path: str | Path) -> Layer:
    """The settings of a YAML file; an empty file has none."""
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        check_depth(text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _check_keys(node)
        values = {} if node is None else loader.construct_document(node)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        raise UserError(f"{path}, line {error.problem_mark.line + 1}: bad YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(f"{path}, line {line}: bad YAML: {error.reason}") from None
    except (ValueError, LookupError, AttributeError, RecursionError) as error:  # not UTF-8, a 13th month, !!bool x
        raise UserError(f"{path}: bad YAML: {error}") from None
    return Layer(str(path), as_mapping(values, f"{path}: the file"))


def check_depth(text: str) -> None:
    """ValueError for brackets in more than DEPTH_MAX levels: PyYAML's time grows with their square."""
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_MAX:
            raise ValueError(f"brackets in more than {DEPTH_MAX} levels")


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The value if it is a mapping, else a UserError."""
    if not isinstance(value, Mapping):
        raise UserError(f"{where} holds {shorten(repr(value))}; allowed: names with their values, `name: value`")
    return value


def _check_keys(root: Any) -> None:
    """No key twice in any mapping of YAML nodes: PyYAML would drop the first one."""
    import yaml

    nodes, seen = [root], set()
    for node in nodes:  # the list grows during the loop
        if isinstance(node, yaml.SequenceNode) and id(node) not in seen:
            nodes += node.value
        elif isinstance(node, yaml.MappingNode) and id(node) not in seen:
            nodes += [value for _, value in node.value]
            names = [str(key.value) for key, _ in node.value]
            for i, (key, _) in enumerate(node.value):
                if names[i] in names[:i]:
                    raise yaml.MarkedYAMLError(problem=f"{shorten(names[i])} is set twice", problem_mark=key.start_mark)
        seen.add(id(node))  # an anchor may contain itself
