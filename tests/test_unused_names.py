"""Every function, class and constant of the package has a user in the package, the scripts or the benchmarks.

Names are compared as words, without comments and docstrings.  An unused name stays hidden while
another place uses the same word.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "fastnode"

#: Imported by those who use fastnode as a library: what they call has no caller here.
LIBRARY = {"client", "testing", "verify"}

#: Users outside the package.
KNOWN = {
    "do_GET": "http.server",
    "do_HEAD": "http.server",
    "log_message": "http.server",
    "handle_error": "socketserver",
    "format_options": "click",
    "get_help_option": "click",
}

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
#: A comment or docstring, a string, or a name: a fifth of the time of Python's tokenizer.
_PIECE = re.compile(
    r"""
    \#[^\n]* | (?<!\w) r? \"{3} (?:\\.|[^\\])*? \"{3}
  | ((?<!\w) [A-Za-z]{0,2}
      (?: \"{3} (?:\\.|[^\\])*? \"{3} | '{3} (?:\\.|[^\\])*? '{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ))
  | (\b [A-Za-z_]\w*)
    """,
    re.DOTALL | re.VERBOSE,
)


def words(path: Path) -> Counter[str]:
    """Names of a file and words in its strings; docstrings and comments do not count."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return Counter(_WORD.findall(re.sub(r"#.*", "", text)))
    found: list[str] = []
    for string, word in _PIECE.findall(text):
        found += [word] if word else _WORD.findall(string)
    return Counter(found)


def definitions(body: list[ast.stmt], *, in_class: bool = False) -> Iterator[str]:
    """Functions, classes, methods and constants; what a decorator registers has a user."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from definitions(node.body, in_class=True)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if decorators <= {"property", "classmethod", "staticmethod", "contextmanager"}:
                yield node.name
        elif not in_class and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif not in_class and isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def is_for_others(path: Path) -> bool:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return room in LIBRARY or path.name == "constants.py"


def test_every_name_has_a_user() -> None:
    used: Counter[str] = Counter()
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".pyx"):
            used += words(path)
    others = [path for folder in ("scripts", "bench") for path in (PROJECT / folder).iterdir() if path.is_file()]
    elsewhere = set().union(*(words(path) for path in others if path.suffix in ("", ".py")))
    unused = {}
    for path in PACKAGE.rglob("*.py"):
        if is_for_others(path) or "_twins" in path.parts:
            continue
        defined = Counter(definitions(ast.parse(path.read_text(encoding="utf-8")).body))
        for name, count in defined.items():
            if used[name] <= count and name not in elsewhere and not name.startswith(("__", "on_")):
                unused[name] = str(path.relative_to(PACKAGE))
    assert {name: path for name, path in unused.items() if name not in KNOWN} == {}
    assert set(KNOWN) - set(unused) == set(), "has a user now"
