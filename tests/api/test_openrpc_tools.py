"""The document in the OpenRPC project's own tools.  They are fetched from npm into the user's cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest
from tests.conftest import clean_environment

from fastnode.api.openrpc import document
from fastnode.app.ground.documentation import all_methods
from fastnode.testing import local_network

pytestmark = pytest.mark.long

#: The client generator, the generator of types, and a compiler: the one that clients ask for is older than the
#: types that npm fetches for it.
TOOLS = {"@open-rpc/generator": "1.22.3", "@open-rpc/typings": "1.13.1", "typescript": "5.9.3"}
DEREFERENCED_S_MAX = 1.0

DEREFERENCE = """
import fs from 'node:fs';
import { parseOpenRPCDocument, validateOpenRPCDocument } from '@open-rpc/schema-utils-js';
const read = JSON.parse(fs.readFileSync(process.argv[2]));
const verdict = validateOpenRPCDocument(read);
if (verdict !== true) throw verdict;
const begun = performance.now();
const whole = await parseOpenRPCDocument(read, { dereference: true });
console.log(JSON.stringify({ seconds: (performance.now() - begun) / 1000, methods: whole.methods.length }));
"""

ASK = """
const { Fastnode } = require(process.argv[2]);
const [host, port] = process.argv[3].replace('http://', '').split(':');
const node = new Fastnode({ transport: { type: 'http', host, port: Number(port) } });
(async () => {
  console.log(JSON.stringify({ number: await node.node_getBlockNumber(), block: await node.node_getBlock(1) }));
  process.exit(0);
})();
"""


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def tools() -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not here")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastnode-tests"
    folder = caches / ("openrpc-" + "-".join(TOOLS.values()))
    if not folder.is_dir():
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        half.mkdir(parents=True)
        (half / "package.json").write_text(json.dumps({"private": True, "dependencies": TOOLS}))
        run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=half)
        half.rename(folder)
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "openrpc.json"
    file.write_bytes(orjson.dumps(document(all_methods())))
    return file


def test_the_document_is_dereferenced_in_less_than_a_second(tools: Path, written: Path, tmp_path: Path) -> None:
    # Packages are looked for beside the script.
    script = tools / f"dereference.{os.getpid()}.mjs"
    script.write_text(DEREFERENCE)
    try:
        found = json.loads(run("node", script, written, cwd=tools))
    finally:
        script.unlink()
    print(found)
    assert found["methods"] == len(document(all_methods())["methods"])
    assert found["seconds"] < DEREFERENCED_S_MAX


def test_types_that_are_generated_from_the_document_compile(tools: Path, written: Path, tmp_path: Path) -> None:
    programs = tools / "node_modules" / ".bin"
    run(programs / "open-rpc-typings", "-d", written, "--output-ts", tmp_path, "--name-ts", "types", cwd=tmp_path)
    run(programs / "tsc", "--noEmit", "--strict", tmp_path / "types.ts", cwd=tmp_path)
    written_types = (tmp_path / "types.ts").read_text()
    assert "(from: NodeGetBlocksFrom, limit: NodeGetBlocksLimit, options?: NodeGetBlocksOptions)" in written_types
    # So begin names that are made of a digest, but for the one of everything at once.
    digests = re.findall(r"^export (?:type|interface) (?:AnyOf|ObjectOf|UnorderedSetOf)\w+", written_types, re.M)
    assert len(digests) == 1


def test_a_client_that_is_generated_from_the_document_compiles_and_asks_a_node(
    tools: Path, written: Path, tmp_path: Path
) -> None:
    programs, client = tools / "node_modules" / ".bin", tmp_path / "client" / "typescript"
    generate = ("generate", "-d", written, "-o", tmp_path, "-t", "client", "-l", "typescript", "-n", "fastnode")
    run(programs / "open-rpc-generator", *generate, cwd=tmp_path)
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=client)
    run(programs / "tsc", "-p", ".", "--skipLibCheck", cwd=client)
    (client / "ask.cjs").write_text(ASK)
    with local_network("--no-test-accounts") as network:
        answer = json.loads(run("node", "ask.cjs", client / "build" / "index.js", network.url, cwd=client))
        assert answer["number"] == network.block_number
        assert answer["block"] == network.call("node_getBlock", 1)
