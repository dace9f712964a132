"""Random requests to both paths of a server, in the same process: `scripts/fuzz requests` runs them under sanitizers.

    python -m tests.serving.fuzz REQUESTS [SEED]

Streams of requests, most of them usual, some damaged, in random pieces: the fast path and the strict path must say the
same to them (tests/serving/two_paths.py), and so must calls of the methods with a usual form.  A crash ends the process
with what the sanitizer found; the line before names the seed of the streams.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Final

from tests._ext import fuzz_alone  # noqa: F401 - before all that imports pytest
from tests.serving.two_paths import HotCalls, TwoPaths, random_pieces

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View

SAMPLE: Final = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
#: Streams with one seed.
STREAMS: Final = 500
USUAL_CALLS_SHARE: Final = 0.3
#: Requests of usual calls in one stream, and of others; a damaged one mostly ends the connection.
USUAL_CALLS: Final = (1, 4, 12, 30)
OTHERS: Final = (1, 2, 5)
DAMAGED_SHARE: Final = 0.1


def spoiled(dice: random.Random, data: bytes) -> bytes:
    """With some bytes changed, taken out or doubled; mostly as it is."""
    if dice.random() >= DAMAGED_SHARE:
        return data
    changed = bytearray(data)
    for _ in range(dice.choice([1, 2, 5])):
        if not changed:
            break
        place = dice.randrange(len(changed))
        length = dice.choice([1, 1, 2, 8, 40])
        match dice.randrange(3):
            case 0:
                changed[place] = dice.randrange(256)
            case 1:
                del changed[place : place + length]
            case 2:
                changed[place:place] = changed[place : place + length]
    return bytes(changed)


async def put_to_both(view: View, seed: int) -> int:
    """Number of requests that have begun on each path."""
    dice = random.Random(seed)
    paths = TwoPaths(view)
    calls = HotCalls(view, paths.strict.table)
    begun = 0
    for _ in range(STREAMS):
        if dice.random() < USUAL_CALLS_SHARE:
            pieces = [spoiled(dice, calls.request(dice)) for _ in range(dice.choice(USUAL_CALLS))]
        else:
            streams = [random_pieces(dice) for _ in range(dice.choice(OTHERS))]
            pieces = [spoiled(dice, piece) for stream in streams for piece in stream]
        await paths.compare([piece for piece in pieces if piece], is_slow=dice.random() < 0.2)
        begun += paths.strict.connection.stream.reader.begun_count
    return begun


def main(wanted: int, seed: int) -> None:
    logging.getLogger("fastnode.rpc").disabled = True  # handlers that fail are among the requests
    with tempfile.TemporaryDirectory() as folder, ChainData.open(Path(folder)) as data:
        adopt_chain_file(data.store, SAMPLE)
        import_chain_file(data.open_ingestor(verify=False), SAMPLE)
        chain = data.store.open_view()
        view, begun, streams, started = View(chain), 0, 0, time.monotonic()
        while begun < wanted:
            print(f"seed {seed + streams}: {begun} requests so far", flush=True)
            begun += asyncio.run(put_to_both(view, seed + streams))
            streams += 1
        chain.close()
    seconds = time.monotonic() - started
    print(f"{begun} requests in {streams * STREAMS} streams, both paths alike, no fault; {seconds:.0f} s, seed {seed}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**9))
