"""Webhooks: what a receiver gets of a chain that grows and loses blocks, while it is down and over restarts."""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S
from tests.serving.push_client import Follower
from tests.serving.sockets import Connection, request, wait_until

from fastnode.artifacts.store import ArtifactStore
from fastnode.chain_data import ChainData
from fastnode.errors import SettingError
from fastnode.outgoing.network import Network
from fastnode.serving import webhooks as hooking
from fastnode.serving.webhooks import Hook, Webhook, hooks_of, read_secret
from fastnode.testing import RunningNetwork, local_network
from fastnode.view import View

SECRET = b"sixteen bytes or more"


class Receiver:
    """Takes events, unless ``status`` says something else."""

    def __init__(self) -> None:
        self.status = 200
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.tries = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret-path"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.tries += 1
        at, _, given = request.headers["X-Fastnode-Signature"].removeprefix("t=").partition(",v1=")
        right = hmac.new(SECRET, at.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(given, right)
        status = self.status
        if 200 <= status < 300:
            self.events.append(orjson.loads(body))
            self.ids.append(request.headers["X-Fastnode-Delivery"])
        request.send_response(status)
        if status == 302:
            request.send_header("Location", f"{self.url}/elsewhere")
        if status == 429:
            request.send_header("Retry-After", "600")
        request.send_header("Content-Length", "0")
        request.end_headers()

    @property
    def numbers(self) -> list[int]:
        return [event["data"]["number"] for event in self.events if event["event"] == "block"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.fixture
def exchanges() -> Iterator[Network]:
    with Network() as network:
        yield network


class Hooked:
    """A webhook over the sample chain, begun anew as often as a test likes."""

    def __init__(self, url: str, file: Path, view: View, exchanges: Network) -> None:
        self.clock = Clock(1_700_000_000.0)
        self._made = lambda: Webhook(
            Hook(url), SECRET, file, lambda: view, exchanges, clock=self.clock, chance=lambda: 0.0
        )
        self.hook = self._made()

    def begin_anew(self) -> None:
        self.hook = self._made()


@pytest.fixture
def hooked(receiver: Receiver, tmp_path: Path, view: View, exchanges: Network) -> Hooked:
    return Hooked(f"{receiver.url}#blocks&from=1", tmp_path / "cursors", view, exchanges)


#: Blocks whose bodies the pruned chain has kept.
KEPT = 40


@pytest.fixture(scope="module")
def pruned_view(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    directory = Path(shutil.copytree(chain_directory, tmp_path_factory.mktemp("pruned") / "data"))
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        while ingestor.prune_bodies(KEPT):
            pass
        with data.store.open_view() as chain:
            assert chain.oldest_body > 2
            yield View(chain, data.state.view)


def test_a_hook_of_logs_whose_next_block_is_pruned_stops_and_says_how_it_goes_on(
    receiver: Receiver, tmp_path: Path, pruned_view: View, exchanges: Network, caplog: pytest.LogCaptureFixture
) -> None:
    oldest = pruned_view.chain.oldest_body
    file = tmp_path / "cursors"
    hooked = Hooked(f"{receiver.url}#publicLogs&from=1", file, pruned_view, exchanges)
    assert hooked.hook.step() is not None
    assert receiver.tries == 0
    advice = (
        f"It goes on from block {oldest}, and says what it leaves out, once its URL has pruned=skip in the fragment"
    )
    assert hooked.hook.trouble is not None
    assert advice in hooked.hook.trouble
    assert any(advice in str(vars(record)) for record in caplog.records)
    hooked = Hooked(f"{receiver.url}#publicLogs&from=1&pruned=skip", file, pruned_view, exchanges)
    while hooked.hook.step() == 0.0:
        pass
    assert hooked.hook.trouble is None
    assert hooked.hook.behind == 0
    gap, *events = receiver.events
    assert (gap["event"], gap["data"]) == ("gap", {"fromBlock": 1, "toBlock": oldest - 1})
    assert {event["event"] for event in events} == {"logs"}
    hooked.begin_anew()
    assert hooked.hook.step() is None
    assert len(receiver.events) == 1 + len(events)


def test_a_hook_of_blocks_is_told_all_of_them_however_many_are_pruned(
    receiver: Receiver, tmp_path: Path, pruned_view: View, exchanges: Network
) -> None:
    hooked = Hooked(f"{receiver.url}#blocks&from=1&pruned=skip", tmp_path / "cursors", pruned_view, exchanges)
    while hooked.hook.step() == 0.0:
        pass
    assert receiver.numbers == [*range(1, pruned_view.chain.tip_number + 1)]


def test_every_block_is_sent_once_and_in_order_and_not_again_after_a_restart(
    receiver: Receiver, hooked: Hooked, view: View
) -> None:
    while hooked.hook.step() == 0.0:
        pass
    assert receiver.numbers == [*range(1, view.chain.tip_number + 1)]
    assert len(set(receiver.ids)) == len(receiver.ids)
    hooked.begin_anew()
    assert hooked.hook.step() is None
    assert len(receiver.events) == view.chain.tip_number


def test_a_hook_has_the_names_that_it_wants(receiver: Receiver, tmp_path: Path, view: View, exchanges: Network) -> None:
    for given in ("true", "false"):
        hook = Hook(f"{receiver.url}#publicLogs&names={given}&from=1")
        webhook = Webhook(hook, SECRET, tmp_path / given, lambda: view, exchanges, ArtifactStore(None))
        while webhook.step() == 0.0:
            pass
    logs = [any("contractName" in log for log in event["data"]) for event in receiver.events]
    half = len(logs) // 2
    assert any(logs[:half])
    assert not any(logs[half:])


def test_a_receiver_that_is_down_for_an_hour_gets_everything_in_order_though_the_node_ends_twice(
    receiver: Receiver, hooked: Hooked, view: View
) -> None:
    seeded = random.Random(3)
    begun, ended = hooked.clock(), 0
    while hooked.clock() < begun + 3600:
        receiver.status = seeded.choice([500, 503, 404, 302])
        pause = hooked.hook.step()
        assert pause is not None
        assert 0 < pause <= hooking.LONGEST_PAUSE_S
        assert hooked.hook.trouble is not None
        assert "webhook 127.0.0.1 blocks: not delivered since" in hooked.hook.trouble
        assert "secret-path" not in hooked.hook.trouble
        hooked.clock.now += pause
        if (hooked.clock() - begun) // 1200 > ended < 2:
            hooked.begin_anew()
            ended += 1
    assert ended == 2
    assert 60 < receiver.tries < 80
    assert receiver.events == []
    receiver.status = 204
    hooked.clock.now += 60
    while hooked.hook.step() == 0.0:
        pass
    assert receiver.numbers == [*range(1, view.chain.tip_number + 1)]
    assert hooked.hook.trouble is None


def test_a_node_that_ends_before_it_has_kept_the_cursor_sends_the_same_again(
    receiver: Receiver, hooked: Hooked, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = random.Random(5)
    keep = Webhook._keep
    is_first = True

    def kept_sometimes(hook: Webhook, cursor: Any, *, is_sent: bool) -> None:
        nonlocal is_first
        if not is_first and seeded.random() < 0.3:
            raise SystemExit
        is_first = False
        keep(hook, cursor, is_sent=is_sent)

    monkeypatch.setattr(Webhook, "_keep", kept_sometimes)
    pause: float | None = 0.0
    while pause is not None:
        try:
            pause = hooked.hook.step()
        except SystemExit:
            hooked.begin_anew()
    numbers = receiver.numbers
    assert [*dict.fromkeys(numbers)] == [*range(1, view.chain.tip_number + 1)]
    assert len(numbers) > view.chain.tip_number
    assert numbers == sorted(numbers)
    assert len(set(receiver.ids)) == view.chain.tip_number


def test_a_pause_that_the_receiver_asks_for_is_kept(receiver: Receiver, hooked: Hooked) -> None:
    receiver.status = 429
    assert hooked.hook.step() == 600
    hooked.clock.now += 599
    assert hooked.hook.step() == 1  # a commit does not cut it short
    assert receiver.tries == 1


def test_redirects_are_not_followed(receiver: Receiver, hooked: Hooked) -> None:
    receiver.status = 302
    hooked.hook.step()
    assert receiver.tries == 1
    assert "a redirect, which is not followed" in str(hooked.hook.trouble)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["ftp://a/"], "--webhook-url"),
        (["http://a/x#nothing"], "--webhook-url of a: topic must be one of"),
        (["http://a/x#tips"], "tips has no history"),
        (["http://a/x#blocks&from=-1"], "from must be a block number"),
        (["http://a/x#publicLogs&tag=zz"], "tag"),
        (["http://a/x#publicLogs&names=yes"], "names must be true or false"),
        (["http://a/x#blocks", "http://a/x"], "twice"),
        ([f"http://a/{number}" for number in range(33)], "the limit is 32"),
    ],
)
def test_urls_that_make_no_sense_are_refused_by_name(texts: list[str], words: str) -> None:
    with pytest.raises(SettingError) as refused:
        hooks_of(texts)
    assert words in str(refused.value)
    assert "/x" not in str(refused.value)


def test_a_secret_that_is_none_is_refused(tmp_path: Path) -> None:
    for file in (None, tmp_path / "none"):
        with pytest.raises(SettingError, match="--webhook-secret-file"):
            read_secret(file)
    (tmp_path / "short").write_bytes(b"short\n")
    with pytest.raises(SettingError, match="a secret has 16 to 4096 bytes"):
        read_secret(tmp_path / "short")


def test_a_node_tells_of_reorgs_and_names_a_receiver_that_is_down(receiver: Receiver, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    os.mkfifo(secret)  # it can be read once at each start
    flags = [f"--webhook-secret-file={secret}", f"--data-directory={tmp_path / 'data'}", "--seed=test"]
    url = f"--webhook-url={receiver.url}"
    with written_to(secret), local_network(*flags, url, in_process=True) as network:
        number = network.mine(4)
        wait_until(lambda: number in receiver.numbers)
        network.call("fastnode_reorg", 2)
        wait_until(lambda: receiver.numbers[-1] == number and receiver.numbers.count(number) == 2)
        receiver.status = 500
        network.mine(2)
        wait_until(lambda: "webhook 127.0.0.1 blocks: not delivered" in status_of(network))
    receiver.status = 200
    with written_to(secret), local_network(*flags, url, in_process=True) as network:
        wait_until(lambda: network.block_number in receiver.numbers)
        follower = Follower(number - 3)
        for told in receiver.events:
            follower.take(told)
        tip = network.block_number
        blocks = [network.call("node_getBlock", each)["hash"] for each in range(number - 3, tip + 1)]
    assert follower.blocks == blocks
    assert follower.pruned == 1


@contextmanager
def written_to(pipe: Path) -> Iterator[None]:
    """The secret, for whoever opens the pipe first."""
    writing = threading.Thread(target=pipe.write_bytes, args=(SECRET + b"\n",))
    writing.start()
    yield
    writing.join(PATIENCE_S)
    assert not writing.is_alive()


def status_of(network: RunningNetwork) -> str:
    with Connection(urlsplit(network.url).port or 0) as connection:
        return connection.ask(request("GET", "/status")).body.decode()
