"""First loads of the status page and of the explorer in Chromium, beside those of a page with one line of text.

    python bench/page_loads.py [--loads 30] [--blocks 100000] [--beside FOLDER]... [--json FILE]

``FOLDER`` is a tree of another version with its extensions built (git worktree add FOLDER COMMIT; in it
``python setup.py build_ext --inplace``).  The pages are loaded by turns, so that what else the machine does meets all
alike; each from an empty page, thus in a new process of the browser; ``cold`` with an empty cache, ``warm`` with one
that has seen the page.  Times are milliseconds from the beginning of the navigation:

    numbers    the first numbers (of the explorer: the newest blocks) are in the document and not hidden
    painted    the frame with them has been made
    requests   what the page had asked for by then, itself included
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

HERE = Path(__file__).parent.parent
LINES_OF_CHAIN = 10
PATIENCE_S = 120.0
WINDOW = (1200, 1000)
TRIVIAL = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>trivial</title><link rel=icon href='data:,'>"
    b"<p id=result>One line of text.</p></html>"
)
#: Runs before the page: notes when what is waited for is there, and when its frame has been made.
OBSERVER = """
window.seen = {};
new MutationObserver(() => {
  if (window.seen.numbers !== undefined) return;
  const isThere = (id) => {
    const item = document.getElementById(id);
    return item !== null && !item.closest("[hidden]");
  };
  const tips = document.getElementById("tips");
  if (!isThere("result") && !(isThere("tips") && tips.childElementCount)) return;
  window.seen.numbers = performance.now();
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { window.seen.painted = performance.now(); };
    port2.postMessage(0);
  });
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden"] });
"""
LOADED = "window.seen?.painted !== undefined"
SEEN = (
    "({...window.seen, requests: 1 + performance.getEntriesByType('resource')"
    ".filter((entry) => entry.startTime < window.seen.numbers).length})"
)


# ---- servers, each in a process of its own ----------------------------------------------------------------


async def serve_trivial() -> None:
    from fastnode.http.limits import Limits
    from fastnode.http.messages import Refusal, Request, Response, header_fields
    from fastnode.serving.server import HttpServer

    class Application:
        guard = None

        def on_request(self, request: Request, allowance: Any) -> Response:
            fields = header_fields(("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"))
            return Response(HTTPStatus.OK, fields, TRIVIAL)

        def on_refusal(self, refusal: Refusal) -> Response:
            return Response(refusal.status, b"", b"")

    server = HttpServer(Application(), host="127.0.0.1", port=0, limits=Limits())
    await server.start()
    await _until_told({"trivial page": f"{server.url}/"})


async def serve_node(folder: Path, blocks: int) -> None:
    """A node whose chain is as long as ``blocks`` says; of it all that the pages read."""
    from tests.conftest import SAMPLE_CHAIN
    from tests.ports import free_port
    from tests.status_page.long_chain import write_long_chain

    from fastnode.app.process.node import Node
    from fastnode.archiver.store import ArchiverStore
    from fastnode.config.settings import Settings
    from fastnode.view import View

    chain_file = folder / "chain.jsonl"
    with lzma.open(SAMPLE_CHAIN) as lines:
        chain_file.write_bytes(b"".join(islice(lines, LINES_OF_CHAIN)))
    settings = Settings(
        data_directory=folder / "data",
        port=0,
        admin_port=0,
        explorer_port=0,
        metrics_port=free_port(),
        chain_file=chain_file,
        disable_admin_api_key=True,
    )
    node = await Node.start(settings)
    async with asyncio.timeout(PATIENCE_S):
        while node.core.condition.is_importing or node.view is None or node.view.state is None:
            await asyncio.sleep(0.05)
    with ArchiverStore.open(folder / "long") as store:
        write_long_chain(store, chain_file, blocks)
        with store.open_view() as view:
            node.core.views.replace(View(view))
            assert node.explorer is not None
            urls = {"status page": f"http://127.0.0.1:{node.admin.port}/", "explorer": f"{node.explorer.url}/"}
            await _until_told(urls)
    await node.stop()


async def _until_told(urls: dict[str, str]) -> None:
    print(json.dumps(urls), flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def server(tree: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """URLs of the pages of a server of this file, with the version in ``tree``."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
                break
        else:
            raise SystemExit(f"no server of {tree}")
    finally:
        process.communicate(timeout=PATIENCE_S)


# ---- loads ------------------------------------------------------------------------------------------------


class Load(NamedTuple):
    numbers: float
    painted: float
    requests: int


async def load(page: Any, url: str, *, is_cold: bool) -> Load:
    await page.send("Page.navigate", url="about:blank")
    if is_cold:
        await page.send("Network.clearBrowserCache")
    await asyncio.sleep(0.2)  # the browser makes a process ready for the next page
    await page.send("Page.navigate", url=url)
    await page.wait(LOADED)
    return Load(**await page.evaluate(SEEN))


async def measure(pages: dict[str, str], loads: int) -> dict[str, dict[str, list[Load]]]:
    """Loads by cache and page."""
    sys.path.insert(0, str(HERE))
    from tests.status_page.chromium import find_chromium, start_chromium

    path = find_chromium()
    if path is None:
        raise SystemExit("no Chromium on this machine; name it with FASTNODE_CHROMIUM")
    found: dict[str, dict[str, list[Load]]] = {}
    async with start_chromium(path) as browser, browser.page() as page:
        await page.resize(*WINDOW)
        await page.send("Page.addScriptToEvaluateOnNewDocument", source=OBSERVER)
        for cache in ("cold", "warm"):
            kept = found[cache] = {name: [] for name in pages}
            for turn in range(-1, loads):
                for name, url in pages.items():
                    one = await load(page, url, is_cold=cache == "cold")
                    if turn >= 0:  # the first of each fills caches
                        kept[name].append(one)
        assert page.errors == []
    return found


def show(found: dict[str, dict[str, list[Load]]]) -> None:
    print(f"{'':<34}{'numbers: least, median, nine of ten':>38}{'painted: the same':>24}{'requests':>10}")
    for cache, pages in found.items():
        for name, loads in pages.items():
            columns = [
                f"{min(times):7.0f}{statistics.median(times):7.0f}{sorted(times)[len(times) * 9 // 10]:7.0f}"
                for times in ([one.numbers for one in loads], [one.painted for one in loads])
            ]
            requests = statistics.median(one.requests for one in loads)
            print(f"{cache + ', ' + name:<34}{columns[0]:>38}{columns[1]:>24}{requests:>10.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    trees = {"": HERE} | {f"{tree.name}: ": tree.resolve() for tree in options.beside}
    pages: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, server(HERE, "serve-trivial") as trivial:
        pages |= trivial
        with (
            _servers(trees, Path(folder), options.blocks) as urls,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            found = runner.run(measure(pages | urls, options.loads))
    show(found)
    print("load of the machine:", *os.getloadavg())
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


@contextmanager
def _servers(trees: dict[str, Path], folder: Path, blocks: int) -> Iterator[dict[str, str]]:
    if not trees:
        yield {}
        return
    (name, tree), *others = trees.items()
    own = folder / str(len(others))
    own.mkdir()
    with server(tree, "serve-node", str(own), str(blocks)) as urls, _servers(dict(others), folder, blocks) as rest:
        yield {name + page: url for page, url in urls.items()} | rest


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve-trivial"]:
        uvloop.run(serve_trivial())
    elif sys.argv[1:2] == ["serve-node"]:
        uvloop.run(serve_node(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
