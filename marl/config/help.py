"""The help text of a configuration: every flag with its names, the kind of its value, its purpose and its default."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING
from functools import lru_cache
from itertools import pairwise
from typing import Any

from marl.config.options import Option, Schema
from marl.config.values import about_choices, as_written, choices_of, describe

COLUMN, WIDTH = 30, 110


def help_text(
    cls: type, aliases: Mapping[str, str] = {}, prefer: str | None = None, sections: Collection[str] | None = None
) -> str:
    """The flags by section; all sections unless some are given. `aliases` and `prefer` as for reader.read."""
    schema = Schema(cls, aliases)
    chosen_by = {} if prefer is None else schema.chosen_by(schema.options[prefer])
    shared = _shared_names(schema, chosen_by)
    lines = []
    for section in schema.sections if sections is None else sections:
        options = [option for option in schema.options.values() if option.section == section]
        choices = f" (--{prefer} {', '.join(chosen_by[section])})" if section in chosen_by else ""
        lines += ["", f"{section}{choices}:"] if section and options else []
        for option in options:
            names = [option.path, *_plain_names(schema, option)]
            if option.name in shared and section in chosen_by:
                names.append(option.name)
            lines += _lines(option, names)
    lines += ["", "A BOOL flag alone means true, --no-NAME means false. Dashes and underscores in names are the same."]
    if shared:
        which = "; ".join(f"{section} for {', '.join(names)}" for section, names in chosen_by.items())
        note = f"Several sections have {', '.join(f'--{name}' for name in shared)}. Without a section's name such a "
        lines += textwrap.wrap(note + f"flag means the section of --{prefer}: {which}.", WIDTH, break_on_hyphens=False)
    return "\n".join(lines).lstrip("\n")


def short_help_text(
    cls: type, groups: Mapping[str, Sequence[str]], aliases: Mapping[str, str] = {}, prefer: str | None = None
) -> str:
    """The flags of these options alone, in groups: title -> paths. Each flag has its shortest and its other names."""
    schema = Schema(cls, aliases)
    chosen_by = {} if prefer is None else schema.chosen_by(schema.options[prefer])
    shared = ", ".join(f"--{name}" for name in _shared_names(schema, chosen_by))
    lines = []
    for title, paths in groups.items():
        lines += ["", f"{title}:"]
        for option in (schema.options[path] for path in paths):
            names = [schema.shortest_flag(option).removeprefix("--"), *_aliases(schema, option)]
            readers = chosen_by.get(option.section, [])
            lines += _lines(option, names, f"{', '.join(readers)}: " if readers else "")
        if shared and prefer in paths:
            note = f"  {shared}: options of the chosen --{prefer}."
            lines += textwrap.wrap(note, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines).lstrip("\n")


def _shared_names(schema: Schema, chosen_by: Mapping[str, Sequence[str]]) -> list[str]:
    """Plain names whose section is chosen by the option `prefer`, in order."""
    names = dict.fromkeys(option.name for option in schema.options.values() if option.section in chosen_by)
    return [name for name in names if len(schema.find(name)) > 1]


def help_of(option: Option) -> str:
    """The text under the field of the option."""
    return _docstrings(option.owner).get(option.name, "")


def _plain_names(schema: Schema, option: Option) -> list[str]:
    """Other names of the option that can mean nothing else."""
    names = [option.name, *_aliases(schema, option)]
    return [name for name in names if name != option.path and schema.find(name) == [option]]


def _aliases(schema: Schema, option: Option) -> list[str]:
    return [alias for alias, meant in schema.aliases.items() if meant is option]


def _lines(option: Option, names: list[str], readers: str = "") -> list[str]:
    metavar = describe(option.type)[0]
    alone = "" if option.bare is None or option.is_bool else f"alone: {as_written(option.bare)}, "
    default = "required" if option.default is MISSING else f"default: {as_written(option.default)}"
    left = f"  --{', --'.join(names)} {metavar if option.bare is None else f'[{metavar}]'}"
    right = textwrap.wrap(f"{readers}{help_of(option)} ({alone}{default})".strip(), WIDTH - COLUMN)
    about = about_choices(option.type)
    width = max(map(len, about), default=0)
    for name in choices_of(option.type) if about else ():
        right += textwrap.wrap(f"{name:{width}}  {about.get(name, '')}", WIDTH - COLUMN - 2, **_hanging(width))
    lines = []
    if len(left) > COLUMN - 2:
        lines += textwrap.wrap(left, WIDTH, subsequent_indent=" " * 6, break_on_hyphens=False, break_long_words=False)
        left = ""
    return [*lines, f"{left:{COLUMN}}{right[0]}", *(" " * COLUMN + text for text in right[1:])]


def _hanging(width: int) -> dict[str, Any]:
    return {"initial_indent": "  ", "subsequent_indent": " " * (width + 4), "break_on_hyphens": False}


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
