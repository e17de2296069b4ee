"""Settings from a YAML file; every mistake in it is a UserError of one line that names the file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.config.values import shorten
from marl.errors import UserError

DEPTH_MAX = 100
LETTERS_MAX = 1 << 18
VALUES_MAX = 10_000  # with those that an alias (`*name`) stands for: a few lines can stand for billions
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
        values = parse_yaml(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        raise UserError(f"{path}, line {error.problem_mark.line + 1}: bad YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(f"{path}, line {line}: bad YAML: {error.reason}") from None
    except Exception as error:  # not UTF-8, a 13th month, !!bool x: PyYAML raises many kinds
        raise UserError(f"{path}: bad YAML: {error}") from None
    return Layer(str(path), as_mapping(values, f"{path}: the file"))


def parse_yaml(text: str) -> Any:
    """What a YAML text holds; an empty one nothing. Any exception: it is no YAML, or larger than any configuration."""
    import yaml

    if len(text) > LETTERS_MAX:
        raise ValueError(f"more than {LETTERS_MAX:,} letters; no configuration is as long as that")
    check_depth(text)
    loader = yaml.SafeLoader(text)
    node = loader.get_single_node()
    if node is None:
        return {}
    _check_keys(node)
    _count_values(node, {})
    return loader.construct_document(node)


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


def _count_values(node: Any, known: dict[int, int | None]) -> int:
    """The values in a YAML node, each alias counted like what it stands for; ValueError for more than VALUES_MAX."""
    if id(node) not in known:
        known[id(node)] = None  # as long as its content is counted
        inside = node.value if isinstance(node.value, list) else ()
        pairs = [each for pair in inside for each in (pair if isinstance(pair, tuple) else (pair,))]
        count = 1
        for each in pairs:
            count += _count_values(each, known)
            if count > VALUES_MAX:
                raise ValueError(f"more than {VALUES_MAX:,} values; no configuration has as many")
        known[id(node)] = count
    count = known[id(node)]
    if count is None:
        raise ValueError("an anchor holds itself")
    return count


def _check_keys(root: Any) -> None:
    """No key twice in any mapping of YAML nodes: PyYAML would drop the first one."""
    import yaml

    nodes, seen = [root], set()
    for node in nodes:  # the list grows during the loop
        if isinstance(node, yaml.SequenceNode) and id(node) not in seen:
            nodes += node.value
        elif isinstance(node, yaml.MappingNode) and id(node) not in seen:
            nodes += [value for _, value in node.value]
            names: set[str] = set()
            for key, _ in node.value:
                name = str(key.value)
                if name in names:
                    raise yaml.MarkedYAMLError(problem=f"{shorten(name)} is set twice", problem_mark=key.start_mark)
                names.add(name)
        seen.add(id(node))  # an anchor may contain itself
