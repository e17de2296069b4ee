"""The options of a configuration by name: full paths, plain names, aliases, and names of earlier versions."""

import dataclasses
import difflib
import typing
from collections.abc import Container, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, NamedTuple

from marl.config.values import check_type, choices_of, shorten, split_optional
from marl.errors import UserError
from marl.registry import SECTIONS


@dataclass(frozen=True)
class Option:
    """One leaf of a configuration."""

    path: str
    """Full name, `ddpg.tau`."""
    type: Any
    """Type hint, resolved."""
    default: Any
    """dataclasses.MISSING if a value must be given."""
    bare: Any
    """Value of the flag without a value; None if the flag needs one."""
    owner: type
    """The dataclass with this field."""

    @property
    def section(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def is_bool(self) -> bool:
        return split_optional(self.type)[0] is bool


@dataclass(frozen=True)
class OldNames:
    """Names of earlier versions. Flags, files and saved runs may still hold them; the help does not show them."""

    paths: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Old path -> path today. The old plain name is understood, too."""
    values: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    """Path today -> {old value: value today}. Used only if the option's choices have the new value and not the old."""
    retired: Mapping[str, tuple[Any, str]] = dataclasses.field(default_factory=dict)
    """Path of a removed option -> the only value that is still accepted and then dropped (as null is), and the reason.
    False stands for an option that is gone altogether."""


NO_OLD_NAMES = OldNames()


class Setting(NamedTuple):
    """One value as it was given."""

    source: str | None  # the file or run; None for a flag
    word: str  # its name as it was written
    key: str  # its name with underscores
    value: Any

    def __str__(self) -> str:
        return shorten(self.word) if self.source is None else f"{self.source}: {shorten(self.word)}"


class Schema:
    """The options and the sections of a dataclass by path, and the meaning of a name among them."""

    def __init__(self, cls: type, aliases: Mapping[str, str] = {}, old: OldNames = NO_OLD_NAMES) -> None:
        self.options: dict[str, Option] = {}
        self.sections: dict[str, type] = {"": cls}
        self._add(cls, "", MISSING)
        self.aliases = {as_key(alias): self.options[path] for alias, path in aliases.items()}
        self.retired = {
            path: Option(path, type(only), only, True if only is False else None, cls)
            for path, (only, _) in old.retired.items()
        }
        self._old = {path: self.options[today] for path, today in old.paths.items()} | self.retired
        self._old_values = old.values

    def _add(self, cls: type, prefix: str, defaults: Any) -> None:
        hints = typing.get_type_hints(cls, include_extras=True)
        for field in dataclasses.fields(cls):
            if not field.init:
                continue
            path, hint, default = prefix + field.name, hints[field.name], field.default
            if defaults is not MISSING:  # a section's default may differ from the defaults of its class
                default = getattr(defaults, field.name)
            elif callable(field.default_factory):
                default = field.default_factory()
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                self.sections[path] = hint
                self._add(hint, path + ".", default)
            else:
                check_type(hint)
                bare = field.metadata.get("bare", True if split_optional(hint)[0] is bool else None)
                self.options[path] = Option(path, hint, default, bare, cls)

    def make(self, values: Mapping[str, Any], section: str = "") -> Any:
        """The dataclass with these values, given by path."""
        cls, prefix = self.sections[section], section and section + "."
        paths = {field.name: prefix + field.name for field in dataclasses.fields(cls) if field.init}
        return cls(**{n: self.make(values, p) if p in self.sections else values[p] for n, p in paths.items()})

    def find(self, key: str) -> list[Option]:
        """All options that the name can mean. The name of a section means none, even if an option has it too."""
        exact = self.options.get(key) or self.aliases.get(key) or self._old.get(key)
        if exact is not None:
            return [exact]
        if key in self.sections:
            return []
        return _with_plain_name(self.options, key) or _with_plain_name(self._old, key)

    def chosen_by(self, chooser: Option) -> dict[str, list[str]]:
        """Section -> the values of the option that choose it."""
        found: dict[str, list[str]] = {}
        for choice in choices_of(chooser.type):
            if (section := section_of(choice, self.sections)) in self.sections:
                found.setdefault(section, []).append(choice)
        return found

    def shortest_flag(self, option: Option) -> str:
        """`--tau` if no other option has this name, else `--ddpg.tau`."""
        return f"--{option.name if self.find(option.name) == [option] else option.path}"

    def resolve(self, setting: Setting, preferred: str | None, rivals: Container[str] = ()) -> Option:
        """The one option that the setting means; of several, that of the preferred section.

        rivals: the preferred section, and those that could be preferred in its place. If all options that the setting
        can mean are theirs and none is of the preferred section, it means the first one, which nobody reads.
        """
        found = self.find(setting.key)
        best = found if len(found) == 1 else [option for option in found if option.section == preferred]
        if not best and preferred in rivals and all(option.section in rivals for option in found):
            best = found
        if best:
            return best[0]
        dashes = "--" if setting.source is None else ""
        if found:
            raise UserError(f"{setting} is in several sections; say {' or '.join(dashes + o.path for o in found)}")
        raise UserError(self._unknown(setting, dashes))

    def _unknown(self, setting: Setting, dashes: str) -> str:
        section = setting.key if setting.key in self.sections else setting.key.rpartition(".")[0]
        section = section if section in self.sections else ""
        known = [option.name for option in self.options.values() if option.section == section]
        known += [path + ".*" for path in self.sections if path and path.rpartition(".")[0] == section]
        if section and section == setting.key:
            return f"{setting} is a section; known in {section}: {', '.join(known)}"
        close = self._closest(setting.key, section, with_sections=not dashes)
        guess = f", did you mean {dashes}{close}?" if close else ""
        what = "unknown flag" if dashes else f"{setting.source}: unknown key"
        if dashes and guess:
            return f"{what} {shorten(setting.word)}{guess}"
        place = f" in {section}" if section else ""
        return f"{what} {shorten(setting.word)}{guess}; known{place}: {', '.join(known)}"

    def _closest(self, key: str, section: str, with_sections: bool) -> str:
        """The name that was probably meant: of the same section, if the key names one; empty if none is near."""
        name = key.rpartition(".")[2]
        if section:  # which is right already, so that only the last name counts
            names = {option.name: path for path, option in self.options.items() if option.section == section}
        else:
            plain = (option.name for option in self.options.values())
            names = {each: each for each in (*self.options, *self.aliases, *plain)}
            names |= {each: each for each in self.sections} if with_sections else {}
        initials = "".join(word[0] for word in name.split("_") if word)  # learning_rate: lr
        if "_" in name and initials in names:
            return names[initials]
        close = difflib.get_close_matches(name if section else key, names, n=1, cutoff=0.5 if section else 0.6)
        return names[close[0]] if close else ""

    def value_today(self, option: Option, value: Any) -> Any:
        """The value, or its new spelling if it is an old one."""
        today = self._old_values.get(option.path, {}).get(value) if isinstance(value, str) else None
        choices = choices_of(option.type) if today is not None else ()
        return today if today in choices and value not in choices else value

    def is_old(self, setting: Setting, option: Option) -> bool:
        """Whether the setting names the option by an old name."""
        return setting.key not in (option.path, option.name) and setting.key not in self.aliases


def _with_plain_name(options: Mapping[str, Option], name: str) -> list[Option]:
    return [option for path, option in options.items() if path.rpartition(".")[2] == name]


def section_of(choice: str, sections: Container[str]) -> str:
    """The section of a choice: as marl.registry says, or the one with its name, or else with its name less the last
    words (ppo_lstm: ppo)."""
    choice = SECTIONS.get(choice, choice)
    while choice not in sections and "_" in choice:
        choice = choice.rpartition("_")[0]
    return choice


def as_key(name: str) -> str:
    """A name as it is looked up: dashes and underscores are the same."""
    return name.replace("-", "_")
