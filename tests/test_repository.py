"""The repository as a whole: what it may hold, what belongs together, and which pages are made from code."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from fastnode import kernels
from fastnode.app.ground import method_documentation
from fastnode.config import documentation as settings_documentation
from fastnode.development import rooms
from fastnode.extras import DISTRIBUTIONS, EXTRAS
from fastnode.values.namespaces import newer_name

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "fastnode"

#: What a clone may weigh, in bytes.
REPOSITORY_BYTES_MAX = 24 << 20

#: Files whose length is not a matter of style: numbers, and pages made from code.
GENERATED = {
    "LICENSE",
    "docs/methods-5.md",
    "docs/methods.md",
    "docs/settings.md",
    "deploy/docker/constraints.txt",
    "tests/constraints.txt",
    "src/fastnode/_ext/hash/c/poseidon2_tables.h",
}


def tracked() -> list[Path]:
    """Every file of the repository; in a tree without git, every file that git would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    paths = (PROJECT / name for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def texts() -> list[tuple[str, str]]:
    """Name and content of every file that is text."""
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content and path.suffix not in (".gz", ".xz"):
            found.append((str(path.relative_to(PROJECT)), content.decode("utf-8")))
    assert len(found) > 100
    return found


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax, read once for all tests of this file."""
    return ast.parse(path.read_bytes())


@pytest.fixture(scope="module", autouse=True)
def trees_are_kept_and_let_go() -> Iterator[None]:
    """Without garbage collection meanwhile: it would look at all of them again and again."""
    gc.disable()
    yield
    tree_of.cache_clear()
    gc.enable()


# ---- what it may hold -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        # Split, so that this file does not find itself.
        ("a path of one machine", "/wo" + r"rk/|/ho" + r"me/\w|/ro" + r"ot/|/Us" + r"ers/\w"),
        (
            "the address of a package registry",
            r"py" + r"pi\.|files\.pyth" + r"onhosted|regist" + r"ry\.npm",
        ),
        ("an unfinished spot", r"\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b"),
        ("a mark of a merge", r"^(<{7}|>{7}) "),
    ],
)
def test_no_file_holds(what: str, pattern: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], f"{what}:\n" + "\n".join(found)


def test_a_clone_is_small() -> None:
    sizes = {path: path.stat().st_size for path in tracked()}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
    assert sum(sizes.values()) < REPOSITORY_BYTES_MAX, f"largest: {largest}"


def test_every_text_ends_with_one_line_break_and_has_no_trailing_blanks() -> None:
    for name, text in texts():
        if not text or name in GENERATED:
            continue
        assert text.endswith("\n"), name
        assert not text.endswith("\n\n"), name
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), f"{name} has blanks at the end of a line"


# ---- what belongs together ----------------------------------------------------------------------------


def extensions() -> list[Path]:
    found = sorted((PACKAGE / "_ext").glob("*/*.pyx"))
    assert found
    return found


def test_every_extension_has_its_declarations_and_its_stub() -> None:
    for source in extensions():
        for other in (source.with_suffix(".pxd"), source.with_suffix(".pyi")):
            assert other.is_file(), f"{source.name} lacks {other.relative_to(PACKAGE)}"


def test_every_twin_is_of_an_extension() -> None:
    assert {source.stem for source in extensions()} >= kernels.TWINS
    for name in kernels.TWINS:
        assert (PACKAGE / "_twins" / f"{name}.py").is_file(), f"there is no twin of {name}"


def test_extensions_are_imported_through_the_one_door_only() -> None:
    pattern = re.compile(r"^\s*(from|import) fastnode\.(_ext|_twins)\b", re.MULTILINE)
    outside = (path for path in PACKAGE.rglob("*.py") if not {"_ext", "_twins"} & set(path.parts))
    users = {path.name for path in outside if pattern.search(path.read_text(encoding="utf-8"))}
    assert users <= {"kernels.py"}


def test_extensions_handle_bytes_only() -> None:
    pattern = re.compile(r"^\s*c?(?:import|from) .*\b(asyncio|logging|config)\b", re.MULTILINE)
    for source in extensions():
        assert not pattern.search(source.read_text(encoding="utf-8")), source.name


def test_every_class_of_an_extension_is_final() -> None:
    """The call of an inline method of another class is a virtual call."""
    for source in extensions():
        for before, line in pairwise(source.read_text(encoding="utf-8").splitlines()):
            assert not line.startswith("cdef class") or before == "@cython.final", f"{source.name}: {line}"


def imports_of(path: Path, depth: int = 1) -> set[str]:
    """The rooms that a module imports, on demand or for types only, too; with a greater ``depth``, their folders."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {
            ".".join(name.split(".")[1 : 1 + depth])
            for name in names
            if name.startswith("fastnode.") and name.count(".") >= depth
        }
    return found - {"__version__"}


def modules_of(room: rooms.Room) -> list[Path]:
    return [PACKAGE / room.title] if room.is_module else sorted((PACKAGE / room.name).rglob("*.py"))


@pytest.mark.parametrize("room", rooms.ROOMS, ids=lambda room: room.name)
def test_a_room_imports_only_what_the_table_allows(room: rooms.Room) -> None:
    for path in modules_of(room):
        reaching = imports_of(path) - {room.name} - rooms.allowed_imports(room)
        assert not reaching, f"{path.relative_to(PACKAGE)} imports {reaching}"


def test_every_module_belongs_to_a_room_of_the_table() -> None:
    listed = {path for room in rooms.ROOMS for path in modules_of(room)}
    assert set(PACKAGE.rglob("*.py")) - listed == {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}


@pytest.mark.parametrize("room", rooms.SUB_ROOMS)
def test_a_folder_of_a_room_imports_only_those_before_it(room: str) -> None:
    folders = rooms.SUB_ROOMS[room]
    assert {path.parent.name for path in (PACKAGE / room).rglob("*.py")} == {room, *folders}
    assert sorted(path.name for path in (PACKAGE / room).glob("*.py")) == ["__init__.py"]
    for index, folder in enumerate(folders):
        later = {f"{room}.{name}" for name in folders[index + 1 :]}
        for path in (PACKAGE / room / folder).glob("*.py"):
            reaching = imports_of(path, depth=2) & later
            assert not reaching, f"{path.relative_to(PACKAGE)} imports {reaching}"


def test_a_room_may_import_only_rooms_listed_before_it() -> None:
    for index, room in enumerate(rooms.ROOMS):
        assert rooms.allowed_imports(room) <= {other.name for other in rooms.ROOMS[:index]}, room.name


def test_a_node_imports_nothing_that_only_developers_need() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "development":
            assert "fastnode.development" not in path.read_text(encoding="utf-8"), path


def test_every_folder_of_the_package_is_a_package() -> None:
    for folder in {path.parent for path in PACKAGE.rglob("*.py")}:
        assert (folder / "__init__.py").is_file(), folder


# ---- pages made from code --------------------------------------------------------------------------------


def test_the_page_of_settings_is_current() -> None:
    assert (PROJECT / "docs" / "settings.md").read_text() == settings_documentation.render(), "run scripts/make-docs"


def test_the_page_of_methods_lists_every_method() -> None:
    page = (PROJECT / "docs" / "methods.md").read_text()
    listed = set(re.findall(r"^\| `((?:node|nodeAdmin|fastnode)_\w+|rpc\.discover)` \|", page, re.MULTILINE))
    methods = method_documentation.all_methods()
    assert listed == {method.name for method in methods if method.signature("both") is not None}
    page = (PROJECT / "docs" / "methods-5.md").read_text()
    listed = set(re.findall(r"^\| `((?:aztec|aztecAdmin|fastnode)_\w+|rpc\.discover)` \|", page, re.MULTILINE))
    later = {method.name for method in methods if method.signature("5.x") or method.signature("6.x")}
    assert listed == {newer_name(name) or name for name in later}


def test_states_are_those_of_methods_that_exist() -> None:
    states = {*method_documentation.STATES, *method_documentation.STATES_OF_FIVE}
    assert states <= {method.name for method in method_documentation.all_methods()}


# ---- links and commands of the pages ------------------------------------------------------------------------


def pages() -> list[Path]:
    return [*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md"), *(PROJECT / "bench").glob("*.md")]


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_install_what_is_there_and_nothing_from_an_index() -> None:
    """The name is on none yet."""
    for page in pages():
        for line in page.read_text().splitlines():
            assert not re.search(r"pip install '?aztec-fastnode", line) or "finds nothing" in line, (
                f"{page.name}: {line}"
            )


def test_the_table_of_rooms_in_the_architecture_is_the_one_that_the_test_of_imports_uses() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text()
    assert page == rooms.render_page(page), "run scripts/make-docs"


#: What a distribution is imported as, where that is another name.
IMPORTED_AS = {"pycryptodome": "Crypto", "prometheus-client": "prometheus_client"}


def test_the_package_imports_only_what_it_depends_on() -> None:
    import sys
    import tomllib

    metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    names = {re.split(r"[\[<>=]", text)[0] for text in metadata["project"]["dependencies"]} | set(EXTRAS)
    known = {IMPORTED_AS.get(name, name) for name in names} | set(sys.stdlib_module_names) | {"fastnode"}
    for path in PACKAGE.rglob("*.py"):
        imported = re.findall(r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        # Only pytest imports the plugin for pytest.
        allowed = known | {"pytest"} if path.name == "pytest_plugin.py" else known
        assert set(imported) <= allowed, f"{path.name} imports {set(imported) - known}"


@pytest.mark.parametrize(
    ("file", "extras", "with_build"),
    [
        ("deploy/docker/build-constraints.txt", None, True),
        ("deploy/docker/constraints.txt", ("all",), False),
        ("tests/constraints.txt", ("all", "test"), True),
    ],
)
def test_the_pinned_releases_are_in_the_ranges_of_the_package(
    file: str, extras: tuple[str, ...] | None, with_build: bool
) -> None:
    """If this fails after a change to the dependencies: scripts/make-constraints."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    optional = metadata["project"]["optional-dependencies"]
    wanted = list(metadata["build-system"]["requires"]) if with_build else []
    if extras is not None:
        all_of_them = [text for name, texts in optional.items() for text in texts if name not in ("test", "bench")]
        wanted += metadata["project"]["dependencies"] + all_of_them
        wanted += optional["test"] if "test" in extras else []
    text = (PROJECT / file).read_text()
    pins = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", text, re.MULTILINE))
    pinned = {canonicalize_name(name): release for name, release in pins.items()}
    for requirement in map(Requirement, wanted):
        if requirement.name != metadata["project"]["name"]:
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


def test_no_range_and_no_pinned_release_has_a_known_advisory() -> None:
    """deploy/advisories.json names releases from ``first`` up to, but not including, ``fixed``."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    texts = [*metadata["build-system"]["requires"], *metadata["project"]["dependencies"]]
    texts += [text for extra in metadata["project"]["optional-dependencies"].values() for text in extra]
    admitted: list[tuple[str, Version, Version | None]] = []  # a name, the first release and the one behind the last
    for requirement in map(Requirement, texts):
        bounds = {each.operator: Version(each.version) for each in requirement.specifier}
        admitted.append((canonicalize_name(requirement.name), bounds.get(">=", Version("0")), bounds.get("<")))
    for file in ("tests/constraints.txt", *(f"deploy/docker/{name}constraints.txt" for name in ("", "build-"))):
        for name, release in re.findall(r"^([\w.-]+)==([^ ;]+)", (PROJECT / file).read_text(), re.MULTILINE):
            admitted.append((canonicalize_name(name), Version(release), Version(f"{release}+end")))
    advisories = json.loads((PROJECT / "deploy" / "advisories.json").read_text())["advisories"]
    assert {each["package"] for each in advisories} <= {name for name, _, _ in admitted}, "a package that is not used"
    affected = [
        f"{name} from {lowest} on: {each['id']}, fixed in {each['fixed']}"
        for each in advisories
        for name, lowest, end in admitted
        if name == each["package"] and lowest < Version(each["fixed"]) and (end is None or Version(each["first"]) < end)
    ]
    assert affected == []


def test_the_page_of_dependencies_lists_those_of_the_package() -> None:
    import tomllib

    metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    wanted = {re.split(r"[\[<>=]", text)[0] for text in metadata["project"]["dependencies"]}
    wanted |= {DISTRIBUTIONS.get(package, package) for package in EXTRAS}
    page = (PROJECT / "docs" / "dependencies.md").read_text()
    assert set(re.findall(r"^\| \[([\w-]+)\]\(", page, re.MULTILINE)) == wanted


def test_numbers_in_the_enums_of_extensions_are_written_out() -> None:
    """A debug build, with overflow checks, cannot compute there."""
    for source in sorted((PACKAGE / "_ext").rglob("*.p[yx]*")):
        if source.suffix == ".pyc":
            continue
        inside = False
        for line in source.read_text().splitlines():
            if re.match(r"(cdef|ctypedef) enum\b", line):
                inside = True
            elif line and not line.startswith(" "):
                inside = False
            elif inside and "=" in line.split("#")[0]:
                value = line.split("#")[0].split("=")[1].strip()
                assert re.fullmatch(r"-?[0-9]+|0x[0-9a-fA-F]+", value), f"{source.name}: {line.strip()}"


def test_no_module_draws_from_the_generator_that_all_modules_share() -> None:
    drawing = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "random"
                and node.attr not in ("Random", "SystemRandom")
            ):
                drawing.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not drawing, "of a program that seeds it, and draws from a thread, results would not repeat"


def test_a_class_that_makes_itself_makes_what_it_inherits_from() -> None:
    classes = {
        node.name: (node, path)
        for path in PACKAGE.rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }

    @functools.cache
    def init(name: str) -> str:
        found = (item for item in classes[name][0].body if isinstance(item, ast.FunctionDef))
        return next((ast.unparse(item) for item in found if item.name == "__init__"), "")

    half_made = [
        f"{path}: {name} does not call {parent.id}.__init__"
        for name, (node, path) in classes.items()
        for parent in node.bases
        if isinstance(parent, ast.Name) and parent.id in classes and init(parent.id) and init(name)
        if "super().__init__" not in init(name) and f"{parent.id}.__init__" not in init(name)
    ]
    assert half_made == []


#: Also in programs that tests keep as text.
_IMPORT = re.compile(r"^[ \t]+from (fastnode[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def test_what_programs_in_tests_import_of_the_package_is_there() -> None:
    """Most of these programs are started only to be killed, and no other check reads them."""

    def is_there(module: str, name: str) -> bool:
        found = importlib.import_module(module)
        return hasattr(found, name) or (
            hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None
        )

    missing = [
        f"{path.name}: {module}.{name}"
        for path in sorted((PROJECT / "tests").rglob("*.py"))
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in (text.split()[0] for text in names.split(","))
        if not is_there(module, name)
    ]
    assert missing == []


def test_what_benchmarks_import_of_the_package_and_its_tests_is_there() -> None:
    """No other test runs them, and they are not type-checked."""
    missing = []
    for path in sorted((PROJECT / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] not in (
                "fastnode",
                "tests",
            ):
                continue
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name) and importlib.util.find_spec(f"{node.module}.{alias.name}") is None:
                    missing.append(f"{path.name}:{node.lineno}: {node.module}.{alias.name}")
    assert missing == []


def test_all_benchmarks_can_be_collected() -> None:
    pytest.importorskip("pytest_benchmark")
    # As by hand: where a process of pytest-xdist collects them, that is worth a warning.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "bench"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-2000:]
    suites = {line.partition("::")[0] for line in found.stdout.splitlines() if "::" in line}
    assert suites == {f"bench/{path.name}" for path in (PROJECT / "bench").glob("bench_*.py")}
