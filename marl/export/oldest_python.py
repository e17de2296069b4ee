"""The oldest Python that a file runs on, as far as its text tells: by its syntax and by the names that it uses.

Names are those of the built-ins and of modules that a submission may use. What a value is cannot be told: `a | b` of
two dictionaries (3.9) is found only if one of them is written there.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

OLDEST = 6  # of Python 3: what exported submissions run on; nothing older is looked for
MODULES = {
    "dataclasses": 7, "contextvars": 7, "importlib.resources": 7, "importlib.metadata": 8, "graphlib": 9, "zoneinfo": 9,
    "tomllib": 11,
}  # fmt: skip
NAMES = {
    7: "math.remainder time.time_ns time.monotonic_ns time.perf_counter_ns time.process_time_ns time.thread_time "
    "time.thread_time_ns contextlib.nullcontext contextlib.AsyncExitStack queue.SimpleQueue re.Match re.Pattern "
    "gc.freeze breakpoint asyncio.run typing.ForwardRef typing.OrderedDict",
    8: "math.prod math.comb math.perm math.dist math.isqrt functools.cached_property functools.singledispatchmethod "
    "statistics.fmean statistics.geometric_mean statistics.multimode statistics.quantiles statistics.NormalDist "
    "typing.Final typing.Literal typing.Protocol typing.TypedDict typing.final typing.get_args typing.get_origin",
    9: "math.lcm math.nextafter math.ulp functools.cache random.randbytes typing.Annotated types.GenericAlias "
    "ast.unparse asyncio.to_thread",
    10: "itertools.pairwise contextlib.aclosing typing.ParamSpec typing.TypeAlias typing.TypeGuard types.NoneType "
    "types.UnionType statistics.correlation statistics.covariance statistics.linear_regression aiter anext "
    "sys.stdlib_module_names",
    11: "math.cbrt math.exp2 contextlib.chdir typing.Self typing.Never typing.Required typing.NotRequired "
    "typing.assert_never operator.call datetime.UTC enum.StrEnum hashlib.file_digest asyncio.TaskGroup asyncio.timeout "
    "ExceptionGroup BaseExceptionGroup",
    12: "math.sumprod itertools.batched random.binomialvariate typing.override collections.abc.Buffer",
    13: "math.fma copy.replace warnings.deprecated os.process_cpu_count",
}
METHODS = {"isascii": 7, "removeprefix": 9, "removesuffix": 9, "bit_count": 10}  # that no type had before
KEYWORDS = {
    "zip strict": 10, "sum start": 8, "pow mod": 8, "itertools.accumulate initial": 8, "subprocess.run text": 7,
    "subprocess.run capture_output": 7, "dataclasses.dataclass slots": 10, "dataclasses.dataclass kw_only": 10,
    "bisect.bisect key": 10, "bisect.bisect_left key": 10, "bisect.bisect_right key": 10, "bisect.insort key": 10,
}  # fmt: skip
_SINCE = {name: minor for minor, names in NAMES.items() for name in names.split()}
_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}
_NODES = {
    "NamedExpr": (8, "an assignment expression (:=)"),
    "Match": (10, "a match statement"),
    "TryStar": (11, "except*"),
    "TypeAlias": (12, "a type statement"),
    "TypeVar": (12, "type parameters"),
    "ParamSpec": (12, "type parameters"),
    "TypeVarTuple": (12, "type parameters"),
}
# {x=}: an equals sign that ends an expression, after doubled braces were taken out.
_SELF_DOCUMENTING = re.compile(r"\{[^{}]*[^{}=!<>]=\s*[}!:]")


class Need(NamedTuple):
    """What a line needs: Python 3.minor."""

    minor: int
    line: int
    what: str


def newest_need(text: str) -> Need | None:
    """What needs the newest Python, first line first; None if all runs on 3.OLDEST. SyntaxError if it is no Python."""
    tree = ast.parse(text)
    lines = text.split("\n")  # as the parser counts them
    found = [*_nested_quotes(text)]
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += _imported(node, aliases)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        found += [Need(minor, line, what) for minor, what in _needs(node, lines, aliases)]
    found = [need for need in found if need.minor > OLDEST]
    return min(found, key=lambda need: (-need.minor, need.line), default=None)


def _imported(node: ast.Import | ast.ImportFrom, aliases: dict[str, str]) -> Iterator[Need]:
    """What an import needs; it is added to the names that the file gives to modules and their parts."""
    for each in node.names:
        if isinstance(node, ast.Import):
            full = each.name
            aliases[each.asname or full.partition(".")[0]] = full if each.asname else full.partition(".")[0]
        else:
            full = f"{node.module}.{each.name}"
            aliases[each.asname or each.name] = full
        for name in (full, getattr(node, "module", None)):
            if name in MODULES:
                yield Need(MODULES[name], node.lineno, f"the module {name}")
        if full in _SINCE:
            yield Need(_SINCE[full], node.lineno, full)
        if full == "__future__.annotations":
            yield Need(7, node.lineno, f"from __future__ import {each.name}")


def _needs(node: ast.AST, lines: list[str], aliases: dict[str, str]) -> Iterator[tuple[int, str]]:
    if type(node).__name__ in _NODES:
        yield _NODES[type(node).__name__]
    elif isinstance(node, ast.JoinedStr):
        segment = ast.get_source_segment("\n".join(lines), node) if "=" in lines[node.lineno - 1] else None
        if segment and _SELF_DOCUMENTING.search(segment.replace("{{", "").replace("}}", "")):
            yield 8, "an f-string with {...=}"
    elif isinstance(node, (ast.Name, ast.Attribute)) and (name := _full_name(node, aliases)) in _SINCE:
        yield _SINCE[name], name
    elif isinstance(node, ast.Attribute) and node.attr in METHODS:
        yield METHODS[node.attr], f"the method {node.attr}"
    elif isinstance(node, ast.Call):
        for word in node.keywords:
            key = f"{_full_name(node.func, aliases)} {word.arg}"
            if key in KEYWORDS:
                yield KEYWORDS[key], f"{key.partition(' ')[0]}(..., {word.arg}=)"
    elif isinstance(node, ast.Subscript):
        if _full_name(node.value, aliases) in _GENERICS:
            yield 9, f"{ast.unparse(node.value)}[...] as a type"
        if _is_bare_star(node.slice, lines):
            yield 11, "a star in an index"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_dict(node.left, node.right):
        yield 9, "| of dictionaries"
    elif isinstance(node, (ast.Return, ast.Yield)) and _is_bare_star(node.value, lines):
        yield 8, "a star in a result without parentheses"
    elif isinstance(node, ast.For) and _is_bare_star(node.iter, lines):
        yield 9, "a star in a loop without parentheses"
    elif isinstance(node, (ast.With, ast.AsyncWith)) and _has_parentheses(node, lines):
        yield 9, "with (... as ..., ...)"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not re.fullmatch(r"[\w.]+", ast.unparse(called)):
                yield 9, "a decorator that is no name"
            if called is decorator and _full_name(called, aliases) == "functools.lru_cache":
                yield 8, "lru_cache without parentheses"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and node.args.posonlyargs:
        yield 8, "parameters by position only (/)"
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            yield 10, "| of types"


def _full_name(node: ast.AST, aliases: dict[str, str]) -> str:
    """The dotted name of a built-in, a module or a part of one: math.prod also where math has another name here."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, aliases)}.{node.attr}"
    return ""


def _is_bare_star(node: ast.AST | None, lines: list[str]) -> bool:
    """Whether this is a tuple with a star and without parentheses."""
    if not (isinstance(node, ast.Tuple) and any(isinstance(each, ast.Starred) for each in node.elts)):
        return False
    return lines[node.lineno - 1].encode()[node.col_offset : node.col_offset + 1] != b"("


def _is_dict(*nodes: ast.AST) -> bool:
    return any(isinstance(node, (ast.Dict, ast.DictComp)) for node in nodes)


def _has_parentheses(node: ast.With | ast.AsyncWith, lines: list[str]) -> bool:
    """Whether parentheses surround the managers with their names, not only the first manager."""
    first = node.items[0].context_expr
    before = "".join(lines[node.lineno - 1 : first.lineno - 1]).encode()
    before += lines[first.lineno - 1].encode()[: first.col_offset]
    after = lines[first.end_lineno - 1].encode()[first.end_col_offset :]
    return before.rstrip().endswith(b"(") and not after.lstrip().startswith(b")")


def _nested_quotes(text: str) -> Iterator[Need]:
    """f-strings whose expressions hold their own quotes. Python before 3.12 cannot read them: SyntaxError there."""
    start, end = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    if start is None:
        return
    quotes: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (start, tokenize.STRING):
            quote = re.sub(r"^\w*", "", token.string)[:3]
            quote = quote if quote in ('"""', "'''") else quote[:1]
            if quote in quotes:
                yield Need(12, token.start[0], "an f-string with its own quotes inside")
            if token.type == start:
                quotes.append(quote)
        elif token.type == end:
            quotes.pop()
