"""A frozen dataclass filled from its defaults, then YAML files, then flags, with the same names and checks for all.

A field that is a dataclass is a section. An option has a full name, `ddpg.tau`, and the plain name `tau` wherever that
can mean only one option. Dashes and underscores are the same. A wrong setting is a UserError of one line. No flag is
ever ignored; a file may hold options that another choice of `prefer` would read.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, TypeVar

from marl.config.options import NO_OLD_NAMES, OldNames, Option, Schema, Setting, as_key, section_of
from marl.config.values import NONE_WORDS, NotText, as_written, describe, parse, shorten
from marl.config.yaml_file import Layer, as_mapping
from marl.errors import UserError

T = TypeVar("T")

NO_VALUE: Any = object()  # the value of a flag without a value


def read(
    cls: type[T],
    argv: Sequence[str],
    aliases: Mapping[str, str] = {},
    prefer: str | None = None,
    layers: Sequence[Layer] = (),
    old: OldNames = NO_OLD_NAMES,
    counterparts: Mapping[str, Sequence[str]] | None = None,
    defaults_of: Callable[[str], Layer | None] = lambda choice: None,
) -> T:
    """The defaults, changed by the layers in their order and then by the flags; of a flag given twice, the last counts.

    `aliases` are further plain names, each with the path of its option. `prefer` is the path of an option whose final
    value names a section: a plain name that several sections have means the option of that section, in layers and in
    flags. `old` are names of earlier versions. With `counterparts`, a flag of a section that `prefer` could choose but
    does not is a mistake; they map a path to the paths of the options with the same purpose in other sections.
    `defaults_of` gives the settings that belong to the final value of `prefer`; all layers and flags override them.
    """
    schema = Schema(cls, aliases, old)
    groups = [list(_settings(schema, layer.source, layer.values)) for layer in layers] + [list(_flags(schema, argv))]
    section, rivals = None, {}
    if prefer is not None:
        rivals = schema.chosen_by(schema.options[prefer])
        choice = _last_choice(schema, schema.options[prefer], groups)
        section = section_of(choice, schema.sections)
        if (layer := defaults_of(choice)) is not None:
            groups.insert(0, list(_settings(schema, layer.source, layer.values)))
    values = {path: option.default for path, option in schema.options.items()}
    counting: dict[str, Setting] = {}  # path -> the last setting
    for group in groups:
        given: dict[str, Setting] = {}
        for setting in group:
            option = schema.resolve(setting, section, rivals)
            values[option.path], counting[option.path] = _value(schema, option, setting), setting
            twin = given.setdefault(option.path, setting)
            if twin is not setting and setting.source is not None:  # the keys of a mapping have no order
                raise UserError(f"{twin} and {setting.word} both set {option.path}; one of them must go")
    if prefer is not None and counterparts is not None:
        _check_is_read(schema, schema.options[prefer], values[prefer], section, counting, counterparts)
    for path, (only, reason) in old.retired.items():
        if (value := values.pop(path, only)) != only:
            is_now = f"is {shorten(as_written(value))}; allowed: {as_written(only)}, {reason}"
            raise UserError(f"{counting[path]} {is_now}")
    for path, value in values.items():
        if value is MISSING:
            raise UserError(f"--{path} is missing; allowed: {describe(schema.options[path].type)[1]}")
    try:
        return schema.make(values)
    except UserError as error:  # the dataclass knows only the new names
        path, is_, rest = str(error).partition(" is ")
        if path in counting and schema.is_old(counting[path], schema.options[path]):
            raise UserError(f"{counting[path]} (now {path}){is_}{rest}") from None
        raise


def to_dict(config: Any) -> dict[str, Any]:
    """The configuration as plain nested values, ready for YAML or JSON; `read` with them as a layer is the inverse."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.init}
    return {
        name: to_dict(value) if dataclasses.is_dataclass(value) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def to_yaml(config: Any) -> str:
    """The configuration as the text of a YAML file for --config; None is written `auto`."""
    import yaml

    return yaml.safe_dump(_with_auto(to_dict(config)), sort_keys=False, allow_unicode=True)


def _with_auto(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _with_auto(value) if isinstance(value, Mapping) else NONE_WORDS[0] if value is None else value
        for name, value in values.items()
    }


def _settings(schema: Schema, source: str, values: Mapping[str, Any], prefix: str = "") -> Iterator[Setting]:
    for name, value in values.items():
        if not isinstance(name, str):  # YAML reads `on:` as True, `1:` as a number
            raise UserError(f"{source}: the key {prefix}{shorten(name)} is a {type(name).__name__}, not a name")
        key = as_key(prefix + name)
        if key and key in schema.sections:
            inner = as_mapping({} if value is None else value, f"{source}: section {key}")
            yield from _settings(schema, source, inner, prefix + name + ".")
        else:
            yield Setting(source, prefix + name, key, value)


def _flags(schema: Schema, argv: Sequence[str]) -> Iterator[Setting]:
    rest = list(argv)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise UserError(f"{shorten(name + equals + value)!r} belongs to no flag; a value stands after its --name")
        if not equals:  # all arguments are flags and values, so the next one without dashes is the value
            value = rest.pop(0) if rest and not rest[0].startswith("--") else NO_VALUE
        key = as_key(name[2:])
        section, dot, last = key.rpartition(".")
        for positive in (key.removeprefix("no_"), section + dot + last.removeprefix("no_")):
            found = [] if schema.find(key) else schema.find(positive)
            if found and all(option.is_bool for option in found):
                if value is not NO_VALUE:
                    raise UserError(f"{shorten(name)} takes no value, but is given {shorten(value)!r}")
                key, value = positive, "false"
        yield Setting(None, name, key, value)


def _last_choice(schema: Schema, chooser: Option, groups: Sequence[Sequence[Setting]]) -> str:
    """The final value of the option."""
    chosen = [_value(schema, chooser, s) for group in groups for s in group if schema.find(s.key) == [chooser]]
    return chosen[-1] if chosen else chooser.default


def _check_is_read(
    schema: Schema,
    chooser: Option,
    choice: str,
    section: str,
    counting: Mapping[str, Setting],
    counterparts: Mapping[str, Sequence[str]],
) -> None:
    """A UserError for a flag of a section that the choice does not read."""
    chosen_by = schema.chosen_by(chooser)
    for path, setting in counting.items():
        other = path.partition(".")[0]
        if setting.source is not None or other == section or other not in chosen_by:
            continue
        same_name = section + path.removeprefix(other)
        others = (each for each in counterparts.get(path, ()) if each.startswith(f"{section}."))
        paths = [same_name] if same_name in schema.options else others
        flags = " and ".join(schema.shortest_flag(schema.options[each]) for each in paths)
        advice = f"use {flags}" if flags else f"leave it out or choose --{chooser.path} {chosen_by[other][0]}"
        raise UserError(
            f"{setting} is an option of section {other}, but --{chooser.path} is {choice}, which reads section "
            f"{section}; {advice}"
        )


def _value(schema: Schema, option: Option, setting: Setting) -> Any:
    if setting.value is NO_VALUE:
        if option.bare is None:
            raise UserError(f"{setting} needs a value; allowed: {describe(option.type)[1]}")
        return option.bare
    if option.path in schema.retired:
        return _retired_value(option, setting.value)
    try:
        return parse(schema.value_today(option, setting.value), option.type)
    except (ValueError, OverflowError) as error:
        quote = f"; YAML reads it as {error} unless you quote it" if isinstance(error, NotText) else ""
        allowed = describe(option.type)[1]
        raise UserError(f"{setting} is {shorten(repr(setting.value))}; allowed: {allowed}{quote}") from None


def _retired_value(option: Option, value: Any) -> Any:
    """The only value that a removed option still has, if this one means the same; else the value as it was given."""
    try:
        return option.default if parse(value, option.type | None) in (None, option.default) else value
    except (ValueError, OverflowError):
        return value
