"""The verifier program in tests: the real one, a copy with a test setup, and scripts that behave badly.

The copy makes three recorded proofs valid, which were proven with a setup whose secret is public.  It is made here,
from the real program, and never shipped: who knows the secret can forge for it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fastnode.proofs import run
from fastnode.proofs.inputs import Circuit, Statement
from fastnode.proofs.keys import VerificationKeys
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

RECORDED = Path(__file__).parents[1] / "data" / "proofs"
VECTORS = ("private", "public", "mixed")

#: As what starts it, not below it: beside busy tests on all cores, a second of work would take it half a minute.
run.NICENESS = 0  # type: ignore[misc]


def real_program() -> Path:
    """The unmodified program; skips where it cannot be had."""
    path = os.environ.get("FASTNODE_TEST_BB", "")
    if not path or not Path(path).exists():
        pytest.skip("no verifier program (scripts/test fetches it; FASTNODE_TEST_BB=/path names one)")
    return Path(path)


def libraries() -> Path | None:
    """The newer system libraries that the program needs here, if it does."""
    path = os.environ.get("FASTNODE_TEST_BB_LIBRARIES", "")
    return Path(path) if path else None


def real_binary() -> Path:
    """The file of the package itself, which need not run on this system."""
    program = real_program()
    return program.with_name("bb") if libraries() is not None else program


def toy_setup() -> dict[str, Any]:
    return dict(json.loads((RECORDED / "toy_setup.json").read_bytes()))


def toy_keys() -> VerificationKeys:
    setup = toy_setup()
    return VerificationKeys(
        release="4.x",
        programs=("4.1.2",),
        to_rollup=base64.b64decode(setup["toRollup"]),
        to_public=base64.b64decode(setup["toPublic"]),
        tree_root=bytes.fromhex(setup["vkTreeRoot"][2:]),
    )


def toy_program(folder: Path) -> Path:
    """A copy of the program with the test setup; skips where this is another build."""
    setup = toy_setup()
    content = bytearray(real_binary().read_bytes())
    if hashlib.sha256(content).hexdigest() != setup["source_sha256"]:
        pytest.skip("the verifier program is another build than the one that the test setup was made for")
    for offset, text in setup["edits"]:
        edit = bytes.fromhex(text)
        content[offset : offset + len(edit)] = edit
    assert hashlib.sha256(content).hexdigest() == setup["result_sha256"]
    binary = folder / "toy-bb"
    binary.write_bytes(content)
    binary.chmod(0o755)
    newer = libraries()
    if newer is None:
        return binary
    return script(
        folder / "toy-bb-wrapper", f'exec "{newer}/ld-linux-x86-64.so.2" --library-path "{newer}" "{binary}" "$@"'
    )


def script(path: Path, *lines: str) -> Path:
    """A program of shell lines."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


#: A program that passes for the verifier until it is asked to check something: then ``lines`` follow.
def stand_in(path: Path, *lines: str, version: str = "4.1.2") -> Path:
    zeros = 'if cmp -s -n 1000 "$5" /dev/zero; then echo "proof has wrong size: a test" >&2; exit 1; fi'
    return script(
        path,
        f'if [ "$1" = --version ]; then echo {version}; exit 0; fi',
        'if [ "$1" = msgpack ]; then exit 0; fi',
        zeros,
        *lines,
    )


def vector(name: str) -> Tx:
    """A recorded transaction with a proof: ``private`` (no public call), ``public`` or ``mixed``."""
    return Tx.from_json(vector_json(name), FOUR)


def vector_json(name: str) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress((RECORDED / f"tx_{name}.json.gz").read_bytes())))


def statement(name: str) -> Statement:
    return Statement.of_tx(vector(name))


def made_statement(number: int) -> Statement:
    """A statement that only stand-ins judge; each number makes another one."""
    inputs = number.to_bytes(32, "big") * 1281
    return Statement(Circuit.TO_ROLLUP, inputs, bytes(1935 * 32))
