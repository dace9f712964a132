"""Builds the Cython extensions; every other piece of metadata is in pyproject.toml.

Each ``src/fastnode/_ext/<name>.pyx`` becomes ``fastnode._ext.<name>``.  Environment switches:

``FASTNODE_DEBUG_BUILD=1``    no optimisation, bounds and overflow checks on, C assertions on
``FASTNODE_SANITIZE=address`` adds ``-fsanitize=`` with that value
``FASTNODE_ANNOTATE=1``       writes the annotated HTML beside each ``.pyx``

Change them together with ``build_ext --force``: nothing is made anew for another switch alone.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

EXT = Path("src/fastnode/_ext")

# C files linked into an extension beside its own .pyx.
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
    "hash_threads": ["hash_threads.c"],
    "poseidon2": [
        "poseidon2_adx.c",
        "poseidon2_ifma.c",
        "poseidon2_ifma_16.c",
        "poseidon2_ifma_8.c",
        "poseidon2_ifma_pair.c",
        "poseidon2_ifma_single.c",
        "poseidon2_kernels.c",
        "poseidon2_portable.c",
    ],
}

DEBUG = os.environ.get("FASTNODE_DEBUG_BUILD") == "1"
SANITIZE = os.environ.get("FASTNODE_SANITIZE")

compile_args = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",  # Cython's method tables share one signature
    "-Wno-missing-field-initializers",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
]
link_args: list[str] = []
compile_args += ["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-DNDEBUG"]
if DEBUG:
    # Where overflows are checked, Cython subtracts pointers as numbers.
    compile_args.append("-Wno-int-conversion")
if SANITIZE:
    compile_args += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g"]
    link_args += [f"-fsanitize={SANITIZE}"]

Options.warning_errors = True


def extension(source: Path) -> Extension:
    name = source.stem
    headers = [str(path) for path in sorted((EXT / "c").glob("*.h"))]
    return Extension(
        f"fastnode._ext.{name}",
        [str(source), *(str(EXT / "c" / file) for file in C_SOURCES.get(name, []))],
        include_dirs=[str(EXT / "c")],
        depends=headers,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


setup(
    ext_modules=cythonize(
        [extension(source) for source in sorted(EXT.glob("*.pyx"))],
        include_path=["src"],
        # The C of a build with other switches must not be taken for this one's.
        force="--force" in sys.argv,
        annotate=os.environ.get("FASTNODE_ANNOTATE") == "1",
        compiler_directives={
            "language_level": 3,
            "embedsignature": True,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": not DEBUG,
            "overflowcheck": DEBUG,
        },
    )
)
