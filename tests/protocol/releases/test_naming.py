"""Nothing but the records and their modules knows which releases there are; who takes one as given has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import fastnode
from fastnode.protocol.releases import known

SOURCE = Path(fastnode.__file__).parent
#: Places that tell of releases: their modules and their records.
TELLING = ("protocol/releases", "data/releases")
#: Modules that take one release as given, and why.
GIVEN = {
    "api/openrpc.py": "examples are answers on the sample chain, which is of this release",
    "archiver/layout.py": "chains that were stored before releases were",
    "archiver/source.py": "a chain whose record names no version",
    "development/synthetic_chain.py": "chain files that the command makes",
    "local_network/opening.py": "a new network of which nobody says otherwise",
    "mempool/network.py": "values that neither L1 nor a node has said",
    "p2p/node/options.py": "a network of peers of which nobody says otherwise",
    "proofs/verifier.py": "a tree root that the operator has named",
}


def code() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*")):
        name = file.relative_to(SOURCE).as_posix()
        if file.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h", ".json") and not name.startswith(TELLING):
            yield name, file.read_text()


def test_no_version_of_a_record_stands_in_code() -> None:
    versions = {version for release in known() for version in release.versions}
    found = [(name, version) for name, text in code() for version in sorted(versions) if _names(text, version)]
    assert found == []


def _names(text: str, version: str) -> bool:
    """Find it as a value: what is told to readers may have one as an example."""
    return re.search(rf"""["']{re.escape(version)}["']""", text) is not None


def test_who_takes_a_release_as_given_is_known_with_the_reason() -> None:
    imported = re.compile(r"^from fastnode\.protocol\.releases import .*\bF(?:OUR|IVE)\b", re.MULTILINE)
    assert {name for name, text in code() if imported.search(text)} == set(GIVEN)
