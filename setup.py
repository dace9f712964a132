"""Builds the Cython extensions; metadata are in pyproject.toml, but for links, which begin with the repository's
address.

That is ``FASTNODE_REPOSITORY_URL``, or what GitHub's runners have in their environment; without one the page on the
package index has no links to other pages.  Source distributions of one commit are equal where ``SOURCE_DATE_EPOCH`` is.

Each ``src/fastnode/_ext/<subject>/<name>.pyx`` becomes ``fastnode._ext.<subject>.<name>``.  Environment switches:

``FASTNODE_DEBUG_BUILD=1``    no optimisation, bounds and overflow checks on, C assertions on
``FASTNODE_SANITIZE=address`` adds ``-fsanitize=`` with that value, and optimises nothing
``FASTNODE_ANNOTATE=1``       writes the annotated HTML beside each ``.pyx``
``FASTNODE_SYMBOLS=1``        keeps symbols and debug information, for profilers

Change them together with ``build_ext --force``: nothing is made anew for another switch alone.
"""

import gzip
import os
import re
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from email import message_from_string
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
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
        "avm_watch.c",
    ],
    "grumpkin": ["avm_inverse.c", "grumpkin.c"],
    "hash_threads": ["hash_threads.c"],
    "indexed_tree": ["past_nodes.c"],
    "poseidon2": [
        "poseidon2_adx.c",
        "poseidon2_avx2.c",
        "poseidon2_avx2_4.c",
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
HAS_C = Path("PKG-INFO").is_file() and not DEBUG and os.environ.get("FASTNODE_ANNOTATE") != "1"

compile_args = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    # Cython's method tables share one signature.
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    *(["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-DNDEBUG"]),
]
link_args: list[str] = []
if DEBUG:
    # Where overflows are checked, Cython subtracts pointers as numbers.
    compile_args.append("-Wno-int-conversion")
if not HAS_SYMBOLS:
    # Python's own flags ask for -g: two thirds of a wheel would be debug information.
    compile_args.append("-g0")
    link_args.append("-Wl,-x" if sys.platform == "darwin" else "-Wl,--strip-all")
if SANITIZE:
    compile_args += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g1"]
    link_args += [f"-fsanitize={SANITIZE}"]

#: Their files have thousands of lines without a branch: what can be done side by side is written so, and the search for
#: more takes half of the time.
STRAIGHT_LINES = "poseidon2"


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


def optimisation(source: Path) -> list[str]:
    """Flags for one C file.  The output of Cython calls Python for the most part: -O3 gains it nothing."""
    if DEBUG:
        return []
    is_straight = source.stem.startswith(STRAIGHT_LINES)
    if SANITIZE:
        # A check at each of thousands of inlined operations: the optimiser takes a minute for a file of 200 lines.
        return ["-O0"]
    if source.parent.name != "c":
        return ["-O2"]
    return ["-O2", "-fno-tree-slp-vectorize"] if is_straight else ["-O3"]


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
        # Where a process begins as a copy of this one: it would run this file again elsewhere.
        nthreads=(os.cpu_count() or 1) if sys.platform == "linux" else 0,
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


class SourceDistribution(sdist):
    """Has the C of the extensions beside their sources."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [*files, *(str(source.with_suffix(".c")) for source in sources())])

    def make_archive(self, base_name: str, format: str, *, base_dir: str, **others: str | None) -> str:
        """In the order of the names, of one time and of no user."""
        if format != "gztar":
            return str(super().make_archive(base_name, format, base_dir=base_dir, **others))
        moment = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

        def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = moment
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            return info

        target = Path(f"{base_name}.tar.gz")
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            target.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=moment) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted([Path(base_dir), *Path(base_dir).rglob("*")]):
                archive.add(path, recursive=False, filter=plain)
        return str(target)


# ---- what a package index shows --------------------------------------------------------------------------


def repository() -> str:
    """Address of the repository, without a slash at its end; empty if it is not known."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return (os.environ.get("FASTNODE_REPOSITORY_URL") or (f"{server}/{name}" if server and name else "")).rstrip("/")


def with_whole_links(text: str, base: str) -> str:
    """A page of the repository as it can be read elsewhere; without ``base`` links to other pages become words."""

    def whole(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        return f"[{words}]({base}/blob/HEAD/{target})" if base else words

    pictures = rf"![\1]({base}/raw/HEAD/\2)" if base else r"\1"
    text = re.sub(r"!\[([^\]]*)\]\((?![a-z]+:)([^)]+)\)", pictures, text)
    return re.sub(r"\[((?:!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^)]+)\)", whole, text)


def page_of_index() -> dict[str, object]:
    """Its text and its links; a source distribution has brought them."""
    if Path("PKG-INFO").is_file():
        made = message_from_string(Path("PKG-INFO").read_text(encoding="utf-8"))
        urls = dict(line.split(", ", 1) for line in made.get_all("Project-URL", []))
        text = str(made.get_payload())
    else:
        base = repository()
        names = {"Documentation": "/tree/HEAD/docs", "Changelog": "/blob/HEAD/CHANGELOG.md", "Issues": "/issues"}
        urls = {"Repository": base, **{name: base + path for name, path in names.items()}} if base else {}
        text = with_whole_links(Path("README.md").read_text(encoding="utf-8"), base)
    return {"long_description": text, "long_description_content_type": "text/markdown", "project_urls": urls}


extensions = [extension(source) for source in sources()]
COMPILES_NOTHING = next((word for word in sys.argv[1:] if word[0] != "-"), "") in ("egg_info", "dist_info", "build_py")
setup(
    ext_modules=extensions if COMPILES_NOTHING else in_c(extensions),
    cmdclass={"build_ext": BuildExtensions, "sdist": SourceDistribution},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
    **page_of_index(),
)
