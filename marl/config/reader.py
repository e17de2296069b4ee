"""Settings as frozen dataclasses: the defaults, then YAML files, then flags, all under the same names and checks.

A field that is a dataclass is a section. Its leaf `ddpg.tau` goes by that full name everywhere, and by the plain name
`tau` wherever that can mean only one leaf. Dashes and underscores are the same. A wrong setting is a UserError of one
line; nothing that was given is ever dropped.
"""

import ast
import dataclasses
import difflib
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from marl.errors import UserError

T = TypeVar("T")

NONE_WORDS = ("auto", "none", "null")
BOOL_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
SCALARS = {  # type -> its name in the help, what a message says is allowed
    int: ("INT", "a whole number"),
    float: ("FLOAT", "a finite number"),
    bool: ("BOOL", "true or false"),
    str: ("TEXT", "text"),
}
ALONE = object()  # stands for the value of a flag that has none
EXACT = 2**53  # a float up to here is the whole number it looks like
HELP_COLUMN, HELP_WIDTH = 30, 110


@dataclass(frozen=True)
class Layer:
    """Settings from one place, nested by section; messages name the place."""

    source: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """One leaf of a configuration."""

    path: str
    """Full name, `ddpg.tau`."""
    type: Any
    """Type hint, resolved."""
    default: Any
    """dataclasses.MISSING if it must be given."""
    bare: Any
    """What the flag alone means; None if it needs a value."""
    owner: type
    """The dataclass it is a field of."""

    @property
    def section(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def help(self) -> str:  # looked up when asked for: reading source takes long, and only the help needs it
        return _docstrings(self.owner).get(self.name, "")


def fields_of(cls: type) -> list[Option]:
    """Every leaf of a dataclass, in order, those of its sections included."""
    return list(_Schema(cls).options.values())


def read(
    cls: type[T],
    words: Sequence[str],
    aliases: Mapping[str, str] = {},
    prefer: str | None = None,
    layers: Sequence[Layer] = (),
) -> T:
    """What the layers in order and then the flags make of the defaults; of a flag given twice, the last one counts.

    `aliases` are further plain names, each with the path of its leaf. `prefer` is the path of a leaf whose final value
    names a section: of several leaves with the same plain name, in layers as in flags, that section's is meant.
    """
    schema = _Schema(cls, aliases)
    groups = [list(_settings(schema, layer.source, layer.values)) for layer in layers] + [list(_flags(schema, words))]
    section = None
    if prefer is not None:
        chooser = schema.options[prefer]
        chosen = [_value(chooser, s) for group in groups for s in group if schema.find(s.key) == [chooser]]
        section = chosen[-1] if chosen else chooser.default
        while section not in schema.sections and "_" in section:
            section = section.rpartition("_")[0]  # ppo_lstm is told by section ppo
    values = {path: option.default for path, option in schema.options.items()}
    for group in groups:
        given: dict[str, _Setting] = {}
        for setting in group:
            option = schema.resolve(setting, section)
            values[option.path] = _value(option, setting)
            twin = given.setdefault(option.path, setting)
            if twin is not setting and setting.source is not None:  # a mapping has no order that could decide
                raise UserError(f"{twin} and {setting.word} both set {option.path}; one of them must go")
    for path, value in values.items():
        if value is MISSING:
            raise UserError(f"--{path} is missing; allowed: {_kind(schema.options[path].type)[1]}")
    return schema.make(values)


def read_yaml(path: str | Path) -> Layer:
    """The settings of a YAML file; an empty file has none."""
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
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
    return Layer(str(path), _mapping(values, f"{path}: the file"))


def to_dict(config: Any) -> dict[str, Any]:
    """The configuration as plain nested values, ready for YAML or JSON; from_dict is the way back."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.init}
    return {
        name: to_dict(value) if dataclasses.is_dataclass(value) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def from_dict(cls: type[T], mapping: Mapping[str, Any], where: str = "configuration") -> T:
    """The configuration of a nested mapping, with the checks of a YAML file; messages name `where` it is from."""
    return read(cls, (), layers=[Layer(where, _mapping(mapping, where))])


def help_text(cls: type, aliases: Mapping[str, str] = {}, prefer: str | None = None) -> str:
    """The flags by section, each with its names, its kind of value, what it does and its default."""
    schema = _Schema(cls, aliases)
    lines = []
    for section in schema.sections:
        options = [option for option in schema.options.values() if option.section == section]
        lines += ["", f"{section}:"] if section and options else []
        for option in options:
            plain = [option.name, *(alias for alias, path in schema.aliases.items() if path == option.path)]
            names = [option.path, *(name for name in plain if name != option.path and schema.find(name) == [option])]
            metavar = _kind(option.type)[0]
            alone = "" if option.bare is None or _is_bool(option) else f"alone: {_written(option.bare)}, "
            default = "required" if option.default is MISSING else f"default: {_written(option.default)}"
            left = f"  --{', --'.join(names)} {metavar if option.bare is None else f'[{metavar}]'}"
            right = textwrap.wrap(f"{option.help} ({alone}{default})".strip(), HELP_WIDTH - HELP_COLUMN)
            if len(left) > HELP_COLUMN - 2:
                lines.append(left)
                left = ""
            lines += [f"{left:{HELP_COLUMN}}{right[0]}", *(" " * HELP_COLUMN + text for text in right[1:])]
    lines += ["", "A BOOL flag alone means true, --no-NAME means false. Dashes and underscores in names are the same."]
    if prefer is not None:
        lines.append(f"A plain name that several sections have is that of the section named by --{prefer}.")
    return "\n".join(lines).lstrip("\n")


class _Setting(NamedTuple):
    source: str | None  # of a layer; None for a flag
    word: str  # its name as it was written
    key: str
    value: Any

    def __str__(self) -> str:
        return _short(self.word) if self.source is None else f"{self.source}: {_short(self.word)}"


class _Schema:
    """The leaves and the sections of a dataclass by path, and what a name means among them."""

    def __init__(self, cls: type, aliases: Mapping[str, str] = {}) -> None:
        self.options: dict[str, Option] = {}
        self.sections: dict[str, type] = {"": cls}
        self.aliases = {_key(alias): path for alias, path in aliases.items()}
        self._add(cls, "", MISSING)

    def _add(self, cls: type, prefix: str, defaults: Any) -> None:
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if not field.init:
                continue
            path, hint, default = prefix + field.name, hints[field.name], field.default
            if defaults is not MISSING:  # a section's default may differ from the defaults of its class
                default = getattr(defaults, field.name)
            elif field.default_factory is not MISSING:
                default = field.default_factory()
            if dataclasses.is_dataclass(hint):
                self.sections[path] = hint
                self._add(hint, path + ".", default)
            else:
                _kind(hint)  # a type that nobody could write in a file is told now, not when someone tries
                bare = field.metadata.get("bare", True if _unwrap(hint)[0] is bool else None)
                self.options[path] = Option(path, hint, default, bare, cls)

    def make(self, values: Mapping[str, Any], section: str = "") -> Any:
        cls, prefix = self.sections[section], section and section + "."
        paths = {field.name: prefix + field.name for field in dataclasses.fields(cls) if field.init}
        return cls(**{n: self.make(values, p) if p in self.sections else values[p] for n, p in paths.items()})

    def find(self, key: str) -> list[Option]:
        """All leaves that the name can mean. A section's name means none, even if a leaf elsewhere has it too."""
        path = key if key in self.options else self.aliases.get(key)
        if path is not None:
            return [self.options[path]]
        return [] if key in self.sections else [option for option in self.options.values() if option.name == key]

    def resolve(self, setting: _Setting, preferred: str | None) -> Option:
        """The one leaf that the setting means."""
        dashes = "--" if setting.source is None else ""
        found = self.find(setting.key)
        best = found if len(found) == 1 else [option for option in found if option.section == preferred]
        if best:
            return best[0]
        if found:
            raise UserError(f"{setting} is in several sections; say {' or '.join(dashes + o.path for o in found)}")
        section = setting.key if setting.key in self.sections else setting.key.rpartition(".")[0]
        section = section if section in self.sections else ""
        known = [option.name for option in self.options.values() if option.section == section]
        known += [path + ".*" for path in self.sections if path and path.rpartition(".")[0] == section]
        if section and section == setting.key:
            raise UserError(f"{setting} is a section; known in {section}: {', '.join(known)}")
        names = [*self.options, *self.aliases, *(option.name for option in self.options.values())]
        close = difflib.get_close_matches(setting.key, names if dashes else [*names, *self.sections], n=1)
        guess = f", did you mean {dashes}{close[0]}?" if close else ""
        what = "unknown flag" if dashes else f"{setting.source}: unknown key"
        place = f" in {section}" if section else ""
        raise UserError(f"{what} {_short(setting.word)}{guess}; known{place}: {', '.join(known)}")


def _settings(schema: _Schema, source: str, values: Mapping[str, Any], prefix: str = "") -> Iterator[_Setting]:
    for name, value in values.items():
        if not isinstance(name, str):  # `on:` is read as True, `1:` as a number
            raise UserError(f"{source}: the key {prefix}{_short(name)} is a {type(name).__name__}, not a name")
        key = _key(prefix + name)
        if key and key in schema.sections:
            inner = _mapping({} if value is None else value, f"{source}: section {key}")
            yield from _settings(schema, source, inner, prefix + name + ".")
        else:
            yield _Setting(source, prefix + name, key, value)


def _flags(schema: _Schema, words: Sequence[str]) -> Iterator[_Setting]:
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise UserError(f"{_short(name + equals + value)!r} belongs to no flag; a value stands after its --name")
        if not equals:  # there are no other words than flags and values, so what follows can only be the value
            value = rest.pop(0) if rest and not rest[0].startswith("--") else ALONE
        key = _key(name[2:])
        section, dot, last = key.rpartition(".")
        for positive in (key.removeprefix("no_"), section + dot + last.removeprefix("no_")):
            found = [] if schema.find(key) else schema.find(positive)
            if found and all(map(_is_bool, found)):
                if value is not ALONE:
                    raise UserError(f"{_short(name)} takes no value, but is given {_short(value)!r}")
                key, value = positive, "false"
        yield _Setting(None, name, key, value)


def _value(option: Option, setting: _Setting) -> Any:
    allowed = _kind(option.type)[1]
    if setting.value is ALONE:
        if option.bare is None:
            raise UserError(f"{setting} needs a value; allowed: {allowed}")
        return option.bare
    try:
        return _parse(setting.value, option.type)
    except (ValueError, OverflowError) as error:
        quote = f"; YAML reads it as {error} unless you quote it" if isinstance(error, _Unquoted) else ""
        raise UserError(f"{setting} is {_short(repr(setting.value))}; allowed: {allowed}{quote}") from None


class _Unquoted(ValueError):
    """Text was expected; holds the type that came instead."""


def _parse(value: Any, hint: Any) -> Any:
    """The value, which may be text, as the type; ValueError or OverflowError if it does not fit."""
    kind, optional = _unwrap(hint)
    if optional and (value is None or (isinstance(value, str) and value.lower() in NONE_WORDS)):
        return None
    if typing.get_origin(kind) is tuple:
        return tuple(_parse(item, typing.get_args(kind)[0]) for item in _items(value))
    if kind in SCALARS and kind is not str:
        return {int: _int, float: _float, bool: _bool}[kind](value)
    if isinstance(value, str) and (kind is str or value in typing.get_args(kind)):
        return value
    if value is None or isinstance(value, (str, list, tuple, Mapping)):
        raise ValueError
    raise _Unquoted(type(value).__name__)


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, str):
        return value if isinstance(value, (list, tuple)) else [value]
    items = [item.strip() for item in value.split(",")] if value else []
    if "" in items:
        raise ValueError
    return items


def _int(value: Any) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = float(value)
    if type(value) is float and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    if type(value) is not int:  # a bool is none
        raise ValueError
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float, str) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _bool(value: Any) -> bool:
    text = str(value).lower()
    if type(value) not in (bool, int, str) or text not in BOOL_WORDS:
        raise ValueError
    return BOOL_WORDS[text]


def _unwrap(hint: Any) -> tuple[Any, bool]:
    """The type without `| None`, and whether that was there."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return (kinds[0] if len(kinds) == 1 else hint), len(kinds) == 1


def _kind(hint: Any) -> tuple[str, str]:
    """What stands for a value of the type in the help, and what a message says is allowed."""
    kind, optional = _unwrap(hint)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal and all(isinstance(choice, str) for choice in arguments):
        metavar, allowed = "{" + ",".join(arguments) + "}", "one of " + ", ".join(arguments)
    elif origin is tuple and arguments[1:] == (...,):
        metavar, allowed = _kind(arguments[0])
        metavar, allowed = f"{metavar},...", f"a list, every item {allowed}"
    elif kind in SCALARS:
        metavar, allowed = SCALARS[kind]
    else:
        raise TypeError(f"a configuration cannot hold {hint}")
    if optional and origin is Literal and {*arguments} & {*NONE_WORDS}:
        raise TypeError(f"{hint}: a choice with the name of None")
    return (f"{metavar}|auto", f"{allowed}, or auto") if optional else (metavar, allowed)


def _is_bool(option: Option) -> bool:
    return _unwrap(option.type)[0] is bool


def _written(value: Any) -> str:
    """A default the way a user would write it."""
    if value is None or isinstance(value, bool):
        return {None: NONE_WORDS[0], True: "true", False: "false"}[value]
    return (",".join(map(_written, value)) if isinstance(value, tuple) else str(value)) or "''"


def _key(name: str) -> str:
    return name.replace("-", "_")


def _short(value: Any, length: int = 100) -> str:
    """For a message of one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else text[:length] + "..."


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where} holds {_short(repr(value))}; allowed: names with their values, `name: value`")
    return value


def _check_keys(root: Any) -> None:
    """No key twice in any mapping of YAML nodes: PyYAML would drop the first one."""
    import yaml

    nodes, seen = [root], set()
    for node in nodes:  # grows on the way
        if isinstance(node, yaml.SequenceNode) and id(node) not in seen:
            nodes += node.value
        elif isinstance(node, yaml.MappingNode) and id(node) not in seen:
            nodes += [value for _, value in node.value]
            names = [str(key.value) for key, _ in node.value]
            for i, (key, _) in enumerate(node.value):
                if names[i] in names[:i]:
                    raise yaml.MarkedYAMLError(problem=f"{_short(names[i])} is set twice", problem_mark=key.start_mark)
        seen.add(id(node))  # an anchor may hold itself


@lru_cache
def _docstrings(cls: type) -> dict[str, str]:
    """The text under each field of a dataclass and of its bases; none where there is no source."""
    found = {}
    for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        try:
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in pairwise(definition.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found
