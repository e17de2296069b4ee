"""The help text of a configuration: every flag with its names, the kind of its value, its purpose and its default."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING
from functools import lru_cache
from itertools import pairwise

from marl.config.options import Option, Schema
from marl.config.values import as_written, describe

COLUMN, WIDTH = 30, 110


def help_text(cls: type, aliases: Mapping[str, str] = {}, prefer: str | None = None) -> str:
    """The flags by section. `aliases` and `prefer` as for reader.read."""
    schema = Schema(cls, aliases)
    chosen_by = {} if prefer is None else schema.chosen_by(schema.options[prefer])
    shared: dict[str, None] = {}  # plain names whose section is chosen by `prefer`, in order
    lines = []
    for section in schema.sections:
        options = [option for option in schema.options.values() if option.section == section]
        choices = f" (--{prefer} {', '.join(chosen_by[section])})" if section in chosen_by else ""
        lines += ["", f"{section}{choices}:"] if section and options else []
        for option in options:
            names = [option.path, *_plain_names(schema, option)]
            if len(schema.find(option.name)) > 1 and section in chosen_by:
                names.append(option.name)
                shared[option.name] = None
            lines += _lines(option, names)
    lines += ["", "A BOOL flag alone means true, --no-NAME means false. Dashes and underscores in names are the same."]
    if shared:
        which = "; ".join(f"{section} for {', '.join(names)}" for section, names in chosen_by.items())
        note = f"Several sections have {', '.join(f'--{name}' for name in shared)}. Without a section's name such a "
        lines += textwrap.wrap(note + f"flag means the section of --{prefer}: {which}.", WIDTH, break_on_hyphens=False)
    return "\n".join(lines).lstrip("\n")


def help_of(option: Option) -> str:
    """The text under the field of the option."""
    return _docstrings(option.owner).get(option.name, "")


def _plain_names(schema: Schema, option: Option) -> list[str]:
    """Other names of the option that can mean nothing else."""
    names = [option.name, *(alias for alias, meant in schema.aliases.items() if meant is option)]
    return [name for name in names if name != option.path and schema.find(name) == [option]]


def _lines(option: Option, names: list[str]) -> list[str]:
    metavar = describe(option.type)[0]
    alone = "" if option.bare is None or option.is_bool else f"alone: {as_written(option.bare)}, "
    default = "required" if option.default is MISSING else f"default: {as_written(option.default)}"
    left = f"  --{', --'.join(names)} {metavar if option.bare is None else f'[{metavar}]'}"
    right = textwrap.wrap(f"{help_of(option)} ({alone}{default})".strip(), WIDTH - COLUMN)
    lines = []
    if len(left) > COLUMN - 2:
        lines += textwrap.wrap(left, WIDTH, subsequent_indent=" " * 6, break_on_hyphens=False, break_long_words=False)
        left = ""
    return [*lines, f"{left:{COLUMN}}{right[0]}", *(" " * COLUMN + text for text in right[1:])]


@lru_cache
def _docstrings(cls: type) -> dict[str, str]:
    """The text under each field of a dataclass and of its bases; none where there is no source."""
    found = {}
    for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        try:
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):
            continue
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found
