"""Builds the Cython extensions; every other piece of metadata is in pyproject.toml.

Each ``src/fastnode/_ext/<subject>/<name>.pyx`` becomes ``fastnode._ext.<subject>.<name>``.  Environment switches:

``FASTNODE_DEBUG_BUILD=1``    no optimisation, bounds and overflow checks on, C assertions on
``FASTNODE_SANITIZE=address`` adds ``-fsanitize=`` with that value, and optimises less: some files take very long
``FASTNODE_ANNOTATE=1``       writes the annotated HTML beside each ``.pyx``
``FASTNODE_SYMBOLS=1``        keeps symbols and debug information, for profilers

Change them together with ``build_ext --force``: nothing is made anew for another switch alone.
"""

import ast
import io
import lzma
import os
import re
import runpy
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.modified import newer_group

EXT = Path("src/fastnode/_ext")
# A header of one subject may be included by another.
C_FOLDERS = sorted(EXT.glob("**/c"))

# C files linked into an extension, from the folder c/ beside its .pyx.
C_SOURCES: dict[str, list[str]] = {
    "avm": [
        "avm_calls.c",
        "avm_gadget_operations.c",
        "avm_gadgets.c",
        "avm_host_operations.c",
        "avm_inverse.c",
        "avm_memory.c",
        "avm_program.c",
        "avm_run.c",
    ],
    "grumpkin": ["avm_inverse.c", "grumpkin.c"],
    "hash_threads": ["hash_threads.c"],
    "indexed_tree": ["past_nodes.c"],
    "poseidon2": [
        "poseidon2_adx.c",
        "poseidon2_ifma.c",
        "poseidon2_ifma_16.c",
        "poseidon2_ifma_8.c",
        "poseidon2_ifma_pair.c",
        "poseidon2_ifma_single.c",
        "poseidon2_kernels.c",
        "poseidon2_portable.c",
        "poseidon2_tables.c",
    ],
}

DEBUG = os.environ.get("FASTNODE_DEBUG_BUILD") == "1"
SANITIZE = os.environ.get("FASTNODE_SANITIZE")
HAS_SYMBOLS = DEBUG or bool(SANITIZE) or os.environ.get("FASTNODE_SYMBOLS") == "1"

#: A source distribution brings the C that Cython makes: its installation waits for the C compiler only.
FROM_SDIST = Path("PKG-INFO").is_file()

#: Python's own flags ask for warnings, which are for work on the repository: looking for them takes a twelfth.
warnings = (
    ["-Wno-all"]
    if FROM_SDIST
    # Cython's method tables share one signature.
    else ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
)
compile_args = [
    "-std=c11",
    *warnings,
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
]
link_args: list[str] = []
compile_args += ["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-DNDEBUG"]
compile_args += [
    # What no extension need have, and how many KB of a wheel that is.  15: instances of the kernels' classes are made
    # once in a while, and may take a tuple of arguments.
    "-DCYTHON_VECTORCALL_TPNEW=0",
    # 14: no process has a second interpreter to import an extension into.
    "-DCYTHON_PEP489_MULTI_PHASE_INIT=0",
]
if DEBUG:
    # Where overflows are checked, Cython subtracts pointers as numbers.
    compile_args.append("-Wno-int-conversion")
if not HAS_SYMBOLS:
    # Python's own flags ask for -g: two thirds of a wheel would be debug information.
    compile_args += ["-g0", "-fno-asynchronous-unwind-tables"]
    if sysconfig.get_platform() == "linux-x86_64":
        # Calls of Python go straight through the table of addresses: the stubs in between are 18 KB of a wheel.
        compile_args.append("-fno-plt")
    # Of an extension of 27 KB a quarter would be the room that the linker leaves between its parts.
    small = ["-Wl,--strip-all", "-Wl,-z,noseparate-code", "-Wl,--build-id=none"]
    link_args += ["-Wl,-x"] if sys.platform == "darwin" else small
if SANITIZE:
    compile_args += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g"]
    link_args += [f"-fsanitize={SANITIZE}"]

#: Extensions that are optimised for size: no answer to a client waits for them.
SMALL = ("avm", "hash_threads", "loop_time", "peer_frames", "poseidon2", "rlp")
#: Those that were a twentieth slower with less inlined.
OFTEN_CALLED = ("encode", "indexed_tree", "tag_log")
#: With -Og instead of -O1 questions that were never asked before took a twentieth longer.
OF_REQUESTS = ("simple_request", "state_answers", "usual_params", "witness_text")


def sources() -> list[Path]:
    """Every ``.pyx``.  Each has a stub, which goes into every kind of package: a stub alone tells that the source was
    left out, and the build must not succeed without the extension."""
    found = sorted(EXT.glob("*/*.pyx"))
    missing = [
        stub.with_suffix(".pyx") for stub in sorted(EXT.glob("*/*.pyi")) if stub.with_suffix(".pyx") not in found
    ]
    beside = {source.stem: source.parent / "c" for source in found}
    wanted = [beside[name] / file for name, files in C_SOURCES.items() if name in beside for file in files]
    missing += [file for file in wanted if not file.is_file()]
    if missing or not found:
        raise SystemExit(f"sources of extensions are missing: {' '.join(map(str, missing)) or EXT / '*.pyx'}")
    return found


#: Their files have thousands of lines without a branch.  With a check at each, optimising them takes half an hour; -O3
#: finds no more in them than -O2, to 2 %.
STRAIGHT_LINES = ("poseidon2",)

#: A tenth of what gcc makes with -O2.  What is marked inline stays so; clang takes the first for nothing at all.
LESS_COPIED = (
    "-fno-inline-functions",
    "-fno-align-functions",
    "-fno-align-jumps",
    "-fno-align-loops",
    "-fno-schedule-insns2",
    "-fno-tree-vectorize",
)
IS_GCC = "clang" not in os.environ.get("CC", sysconfig.get_config_var("CC") or "") and sys.platform != "darwin"

#: A third of the time for files without a branch was gcc's search for the last store before each load.
FEW_QUERIES = ("--param=sccvn-max-alias-queries-per-access=20", "--param=dse-max-alias-queries-per-store=16")


def optimisation(source: Path) -> list[str]:
    """Of one C file.  What Cython makes calls Python for the most part: with -O3 it is a quarter larger and as fast.

    From a source distribution most of it is compiled with -Og, a quarter less work than -O1.
    """
    if DEBUG:
        return []
    if SANITIZE:
        return ["-O0" if source.stem.startswith(STRAIGHT_LINES) else "-O1"]
    if source.parent.name == "c":
        if not source.stem.startswith(STRAIGHT_LINES):
            return ["-O3"]
        # What can be done side by side is written so: looking for more takes half of the time.
        return ["-O2", "-fno-tree-slp-vectorize", *(FEW_QUERIES if IS_GCC and FROM_SDIST else ())]
    if FROM_SDIST:
        return ["-O1" if source.stem in (*OFTEN_CALLED, *OF_REQUESTS) else "-Og"]
    if source.stem in SMALL:
        return ["-Os"]
    return ["-O2", *(LESS_COPIED if IS_GCC and source.stem not in OFTEN_CALLED else ())]


class BuildExtensions(build_ext):
    """Compiles each file by itself, with the flags of :func:`optimisation`, as many at a time as there are processors.

    setuptools would compile the files of an extension one after the other, all with the same flags, and those of two
    extensions twice.
    """

    def build_extensions(self) -> None:
        stale = [each for each in self.extensions if self.force or self._is_stale(each)]
        files = sorted({file for each in stale for file in each.sources}, key=longest_first)
        with ThreadPoolExecutor(self.parallel or 1) as threads:
            try:
                objects = dict(zip(files, threads.map(self._compile, files), strict=True))
                for _ in threads.map(lambda each: self._link(each, objects), stale):
                    pass
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    def _is_stale(self, each: Extension) -> bool:
        return newer_group([*each.sources, *each.depends], self.get_ext_fullpath(each.name))

    def _compile(self, file: str) -> str:
        [made] = self.compiler.compile(
            [file],
            output_dir=self.build_temp,
            include_dirs=[str(folder) for folder in C_FOLDERS],
            debug=self.debug,
            extra_postargs=[*compile_args, *optimisation(Path(file))],
        )
        return str(made)

    def _link(self, each: Extension, objects: dict[str, str]) -> None:
        self.compiler.link_shared_object(
            [objects[file] for file in sorted(each.sources)],
            self.get_ext_fullpath(each.name),
            libraries=self.get_libraries(each),
            extra_postargs=link_args,
            export_symbols=self.get_export_symbols(each),
            debug=self.debug,
            build_temp=self.build_temp,
        )


def longest_first(file: str) -> tuple[bool, int]:
    """No processor shall wait at the end for one file alone."""
    return not Path(file).stem.startswith(STRAIGHT_LINES), -Path(file).stat().st_size


def extension(source: Path) -> Extension:
    name, beside = source.stem, source.parent / "c"
    return Extension(
        f"fastnode._ext.{source.parent.name}.{name}",
        [str(source), *(str(beside / file) for file in C_SOURCES.get(name, []))],
        depends=[str(path) for folder in C_FOLDERS for path in sorted(folder.glob("*.h"))],
    )


HAS_C = FROM_SDIST and not DEBUG and os.environ.get("FASTNODE_ANNOTATE") != "1"


def in_c(extensions: list[Extension]) -> list[Extension]:
    if HAS_C:
        for each in extensions:
            each.sources = [str(Path(source).with_suffix(".c")) for source in each.sources]
        return extensions
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.warning_errors = True
    made: list[Extension] = cythonize(
        extensions,
        include_path=["src"],
        # The C of a build with other switches must not be taken for this one's.
        force="--force" in sys.argv or "sdist" in sys.argv,
        annotate=os.environ.get("FASTNODE_ANNOTATE") == "1",
        compiler_directives={
            "language_level": 3,
            # Functions of C: half as much code around each, and signatures are in the stubs.
            "binding": False,
            "embedsignature": False,
            # Functions of one argument take it as it is, without looking for its name.
            "always_allow_keywords": False,
            # What compilers read is half as long.
            "emit_code_comments": False,
            # Nothing here can be pickled: it would be a copy of pointers.
            "auto_pickle": False,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": not DEBUG,
            "overflowcheck": DEBUG,
        },
    )
    return made


# ---- what a wheel has of the Python modules ----------------------------------------------------------------

#: Their docstrings stay: what programs of others call, and what commands say of themselves.
DOCUMENTED = ("fastnode/client/", "fastnode/cli/")
DOCUMENTED_MODULES = ("__init__", "errors", "pytest_plugin", "testing", "verify")


def without_comments(text: str, *, keep_docstrings: bool) -> str:
    """The module with the same statements in the same lines: tracebacks name the lines of the repository.

    Each level is indented by one blank instead of four.
    """
    lines = text.split("\n")
    for first, last, instead in () if keep_docstrings else docstrings(text):
        lines[first : last + 1] = [instead, *[""] * (last - first)]
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    inside = lines_inside_strings("\n".join(lines))
    return "\n".join(line if row in inside else less_indented(line) for row, line in enumerate(lines))


def lines_inside_strings(text: str) -> set[int]:
    """From 0: what begins these lines belongs to a value."""
    rows: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            rows.update(range(node.lineno, node.end_lineno))
    return rows


def less_indented(line: str) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    return " " * (blanks // 4 + blanks % 4) + line[blanks:]


def docstrings(text: str) -> Iterator[tuple[int, int, str]]:
    """First and last line, from 0, and what has to stand there instead; of those that have lines to themselves."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        string = node.body[0]
        assert string.end_lineno is not None
        first, last = string.lineno - 1, string.end_lineno - 1
        if lines[first].lstrip()[:1] in "\"'r" and lines[last].rstrip()[-1:] in "\"'":
            is_all = len(node.body) == 1 and not isinstance(node, ast.Module)
            yield first, last, f"{' ' * string.col_offset}pass" if is_all else ""


#: Texts that a wheel has as ``fastnode.sources.packed_texts`` describes.
PACKED_TEXTS = ("sample_chain.jsonl.xz", "l1_contracts.json.xz")


class BuildModules(build_py):
    """Comments, indentation and docstrings of what only fastnode itself calls are a quarter of the modules.

    Only a wheel that is made from the repository is small: an installation from source would wait for it.
    """

    def build_package_data(self) -> None:
        super().build_package_data()
        if self.editable_mode or FROM_SDIST:
            return
        packed = runpy.run_path("src/fastnode/sources/packed_texts.py")["packed"]
        for name in PACKED_TEXTS:
            text = lzma.decompress(Path("src/fastnode/data", name).read_bytes())
            Path(self.build_lib, "fastnode/data", name).write_bytes(packed(text))

    def build_module(self, module: str, module_file: str, package: str | tuple[str, ...]) -> tuple[str, bool]:
        made, copied = super().build_module(module, module_file, package)
        if not self.editable_mode and not FROM_SDIST:
            place = "/".join(package.split(".") if isinstance(package, str) else package) + "/"
            is_public = place.startswith(DOCUMENTED) or (place == "fastnode/" and module in DOCUMENTED_MODULES)
            text = Path(module_file).read_text(encoding="utf-8")
            Path(made).write_text(without_comments(text, keep_docstrings=is_public), encoding="utf-8")
        return made, copied


class SourceDistribution(sdist):
    """Has the C of the extensions beside their sources."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        made = [str(source.with_suffix(".c")) for source in sources()]
        super().make_release_tree(base_dir, [*files, *made])
        metadata = Path(base_dir, "pyproject.toml")
        # pip would fetch and install it for nothing.
        text = re.sub(r', "cython[^"]*"\]', "]", metadata.read_text(encoding="utf-8"), count=1)
        # A file of its own: setuptools links to the one of the repository.
        metadata.unlink()
        metadata.write_text(text, encoding="utf-8")


extensions = [extension(source) for source in sources()]
#: Commands that compile nothing.
COMPILES_NOTHING = next((word for word in sys.argv[1:] if word[0] != "-"), "") in (
    "egg_info",
    "dist_info",
    "build_py",
)
setup(
    ext_modules=extensions if COMPILES_NOTHING else in_c(extensions),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildModules, "sdist": SourceDistribution},
    options={
        "build_ext": {"parallel": os.cpu_count() or 1},
        # What is installed from source is unpacked at once.
        "bdist_wheel": {"compression": "stored"} if FROM_SDIST else {},
    },
)
