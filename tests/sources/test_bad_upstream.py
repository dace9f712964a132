"""A node on the other side that stalls, breaks off, lies or goes mad: nothing wrong is ever stored, and every case
has its line in the log and in the status."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sources.conftest import PATIENCE_S, FollowingNode, following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.errors import BlockRejected, DecodeError, StartError, UpstreamFault
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tips import L2Tips
from fastnode.sources.follower import FollowerOptions

Json = dict[str, Any]


@contextmanager
def caught_up(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, **settings: Any) -> Iterator[FollowingNode]:
    """A node with the chain, before anything bad happens; afterwards all is well again."""
    with following(tmp_path / "node", upstream.url, **settings) as node:
        node.wait_for(chain)
        yield node
        with upstream.lock:
            upstream.disturb = lambda _handler, _body: False
            upstream.tamper = lambda _method, _parameters, result: result
        node.wait_for(chain)


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.getMessage()} {getattr(record, 'facts', {})}" for record in caplog.records]


# ---- transport -----------------------------------------------------------------------------------


def stall(_handler: Any, _body: bytes) -> bool:
    time.sleep(0.6)
    return False


def drip(handler: Any, _body: bytes) -> bool:
    """Always another byte, never an end."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)
    return True


def half(handler: Any, body: bytes) -> bool:
    answer = handler.server.upstream.answer(body)
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(answer)))
    handler.end_headers()
    handler.wfile.write(answer[: len(answer) // 2])
    handler.close_connection = True
    return True


def reset(handler: Any, _body: bytes) -> bool:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True
    return True


def status(number: int, **headers: str) -> Callable[[Any, bytes], bool]:
    def disturb(handler: Any, _body: bytes) -> bool:
        handler.reply(b"no", number, **headers)
        return True

    return disturb


def huge(handler: Any, _body: bytes) -> bool:
    handler.reply(b" " * (2 << 20))
    return True


def answering(body: bytes) -> Callable[[Any, bytes], bool]:
    def disturb(handler: Any, _body: bytes) -> bool:
        handler.reply(body)
        return True

    return disturb


@pytest.mark.parametrize(
    ("disturb", "state", "reason"),
    [
        (stall, "unavailable", "no complete answer within 0.3 s"),
        (drip, "unavailable", "no complete answer within 0.3 s"),
        (half, "unavailable", ""),
        (reset, "unavailable", ""),
        (status(500), "unavailable", "HTTP status 500"),
        (status(503), "unavailable", "HTTP status 503"),
        (status(429, Retry_After="1"), "unavailable", "HTTP status 429"),
        (status(404), "put aside", "HTTP status 404"),
        (status(302, Location="http://127.0.0.1:1/"), "put aside", "HTTP status 302"),
        (huge, "put aside", "exceeds 1048576 bytes"),
        (answering(b"<html>"), "put aside", "not JSON"),
        (answering(b"[]"), "put aside", "without an answer"),
        (answering(b"[1,2]"), "put aside", "not a JSON-RPC answer"),
        (answering(b'{"jsonrpc":"2.0","id":0,"error":5}'), "put aside", "5 (code -32000)"),
        (answering(b'[{"id":0,"result":5},{"id":1}]'), "put aside", "tips"),
        (
            answering(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"No batches"}}'),
            "put aside",
            "No ba",
        ),
    ],
)
def test_a_node_that_cannot_be_talked_to_is_left_alone_until_it_can(
    tmp_path: Path,
    chain: MadeChain,
    upstream: ScriptedUpstream,
    caplog: pytest.LogCaptureFixture,
    disturb: Any,
    state: str,
    reason: str,
) -> None:
    caplog.set_level(logging.INFO)
    settings = {"upstream_timeout_s": 0.3, "upstream_max_response_size": 1 << 20}
    with caught_up(tmp_path, chain, upstream, **settings) as node:
        before = node.tips
        upstream.disturb = disturb
        found = node.wait_for_upstream(state, reason)
        assert node.tips == before
        node.wait(lambda: node.follower.describe()["state"] == "degraded")
        assert node.follower.is_ready, "reads go on"
        wanted = "upstream unavailable" if state == "unavailable" else "upstream put aside"
        node.wait(lambda: any(line.startswith(wanted) and found["name"] in line for line in log_lines(caplog)))


def test_a_node_that_is_gone_comes_back_without_a_restart(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with caught_up(tmp_path, chain, upstream) as node:
        upstream.stop()
        node.wait(lambda: node.follower.describe()["state"] == "degraded")
        assert "no upstream can be followed" in (node.follower.trouble or "")
        chain.checkpoint(2)
        upstream.start()


# ---- identity ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"l1ChainId": 1}, "its L1 chain id is 1, the stored chain's is 31337"),
        ({"rollupVersion": 5}, "its rollup version is 5, the stored chain's is"),
        ({"nodeVersion": "6.0.0"}, "its node version is 6.0.0, the stored chain is of release 4.x"),
        ({"nodeVersion": "7.0.0"}, "its node version is 7.0.0, this node follows versions 4.x"),
    ],
)
def test_another_network_ends_a_node_that_starts_and_is_put_aside_later(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, changes: Json, reason: str
) -> None:
    good = upstream.node_info
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        upstream.stop()
        node.wait_for_upstream("unavailable")
        upstream.node_info = good | changes
        upstream.start()
        node.wait_for_upstream("put aside", reason)
        upstream.node_info = good
        node.wait_for_upstream("healthy")
    upstream.node_info = good | changes
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for_failure(StartError, reason)


def test_a_genesis_that_is_not_below_block_1_is_refused_with_both_roots(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    other = "0x" + "00" * 31 + "07"

    def tamper(method: str, _: list[Any], result: Any) -> Any:
        if method == "fastnode_getGenesis":
            result = copy.deepcopy(result)
            result["genesis"]["archiveRoot"] = other
        return result

    upstream.tamper = tamper
    with pytest.raises(StartError, match=rf"{chain.genesis['archiveRoot']}.*{other}"):  # noqa: SIM117
        with following(tmp_path / "node", upstream.url):
            pass


def test_a_class_that_is_not_what_its_id_says_is_named_and_asked_for_again(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    lies = iter([True, True])

    def tamper(method: str, _: list[Any], result: Any) -> Any:
        if method == "fastnode_getGenesis" and next(lies, False):
            result = copy.deepcopy(result)
            result["genesis"]["contractClasses"][0]["artifactHash"] = "0x" + "00" * 31 + "07"
        return result

    upstream.tamper = tamper
    with following(tmp_path / "node", upstream.url) as node:
        assert next(lies, None) is None, "it was asked once more after each lie"
        assert node.data.store.has_chain
    assert re.search(r"genesis: class 0x\w+ hashes to 0x", "".join(str(vars(line)) for line in caplog.records))


def test_a_node_without_the_own_namespace_needs_a_genesis_file(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    upstream.is_fastnode = False
    with pytest.raises(StartError, match="give --genesis FILE"), following(tmp_path / "node", upstream.url):
        pass


# ---- content -------------------------------------------------------------------------------------


def paths_of(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every value of a record that is no container."""
    children = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else None
    if children is None:
        yield path
        return
    for key, child in children:
        yield from paths_of(child, (*path, key))


def flip(record: Any, path: tuple[Any, ...]) -> Any:
    """A copy with the lowest bit of one value flipped."""
    changed = copy.deepcopy(record)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    if isinstance(value, str) and value.startswith("0x"):
        value = f"0x{int(value, 16) ^ 1:0{len(value) - 2}x}"
    elif isinstance(value, str):
        value = str(int(value) ^ 1)
    elif isinstance(value, int):
        value ^= 1
    holder[path[-1]] = value
    return changed


def generic(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """The path without its indices: one flip of each kind is enough."""
    return tuple(key for key in path if not isinstance(key, int))


#: No hash covers these: where L1 has the checkpoint.
NOT_HASHED = {"l1", "attestations", "feeAssetPriceModifier"}
REFUSALS = (BlockRejected, DecodeError, UpstreamFault)


def one_pass(node: FollowingNode) -> None:
    source = node.follower._sources[node.origins.upstreams.all[0]]
    for record in source.records(lambda: node.ingestor.view):
        node.ingestor.apply(record)


def assert_every_flip_is_refused(node: FollowingNode, good: Json, offer: Callable[[Json], None]) -> None:
    kinds = {generic(path): path for path in paths_of(good) if not NOT_HASHED & set(path)}
    assert len(kinds) > 30
    before = node.contents()
    for kind, path in kinds.items():
        offer(flip(good, path))
        with contextlib.suppress(*REFUSALS):
            one_pass(node)
            pytest.fail(f"{kind} can be changed")
        assert node.ingestor.view.tip_number == node.data.state.block_number  # type: ignore[union-attr]
    assert node.contents() == before


def test_one_flipped_bit_in_a_checkpoint_is_refused(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    chain.publish()
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        assert node.control.pause(10)
        chain.checkpoint(2)

        good = upstream.checkpoints([len(chain.units), 1])[0]
        # The checkpoint before is compared first.
        chain_of_before = upstream.checkpoints([len(chain.units) - 1, 1])

        def offer_behind(record: Json) -> None:
            upstream.answers["node_getCheckpoints"] = lambda parameters: (
                chain_of_before if parameters[0] < len(chain.units) else [record]
            )

        assert_every_flip_is_refused(node, good, offer_behind)
        offer_behind(good)
        node.control.resume()
        node.wait_for(chain)


def test_one_flipped_bit_in_a_proposed_block_is_refused(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        assert node.control.pause(10)
        chain.propose()
        good = chain.blocks[-1].to_json()

        def offer(record: Json) -> None:
            upstream.answers["node_getBlocks"] = lambda _: [record]

        assert_every_flip_is_refused(node, good, offer)
        offer(good)
        node.control.resume()
        node.wait_for(chain)


def test_a_message_that_is_not_the_one_of_l1_is_refused(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    chain.publish()
    while not chain.units[-1].messages:
        chain.checkpoint()
    wrong = ["0x" + "00" * 31 + "07", *chain.units[-1].messages[1:]]
    number = len(chain.units)
    upstream.tamper = lambda method, parameters, result: (
        wrong if method == "fastnode_getL1ToL2Messages" and parameters == [number] else result
    )
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for_upstream("put aside", "header.inHash")
        assert node.tips.checkpointed.checkpoint.number == number - 1
        upstream.tamper = lambda _method, _parameters, result: result
        node.wait_for(chain)


def test_messages_that_no_source_has_stop_the_sync_with_one_clear_line(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    chain.publish()
    while not chain.units[-1].messages:
        chain.checkpoint()
    number = len(chain.units)
    upstream.tamper = lambda method, parameters, result: (
        None if method == "fastnode_getL1ToL2Messages" and parameters == [number] else result
    )
    with following(tmp_path / "node", upstream.url) as node:
        wanted = f"checkpoint {number} inserts messages from L1"
        node.wait(lambda: wanted in (node.follower.trouble or ""))
        passes = len(upstream.requests)
        node.wait(lambda: len(upstream.requests) > passes + 10)
        assert node.tips.checkpointed.checkpoint.number == number - 1
        assert sum(wanted in line for line in log_lines(caplog)) == 1
        upstream.tamper = lambda _method, _parameters, result: result
        node.wait_for(chain)


@pytest.mark.parametrize(
    ("method", "tamper", "reason"),
    [
        ("node_getCheckpoints", lambda _, result: result[1:], "it gave checkpoint|does not give it"),
        ("node_getCheckpoints", lambda _, result: [], "announced checkpoint"),
        ("node_getCheckpoints", lambda _, result: {"a": 1}, "gave no list"),
        ("node_getCheckpoints", lambda _, result: None, "gave no list"),
        ("node_getBlocks", lambda _, result: [], "announced block"),
        ("node_getBlocks", lambda _, result: [5], "block"),
        ("node_getBlocks", lambda _, result: result[::-1], "it gave block"),
        ("node_getL2Tips", lambda _, result: {"proposed": 5}, "tips.proposed"),
        ("node_getBlockHeader", lambda _, result: {"lastArchive": 5}, "header.lastArchive"),
    ],
)
def test_gaps_and_nonsense_put_a_node_aside(
    tmp_path: Path,
    chain: MadeChain,
    upstream: ScriptedUpstream,
    method: str,
    tamper: Callable[[Any, Any], Any],
    reason: str,
) -> None:
    with caught_up(tmp_path, chain, upstream) as node:
        assert node.control.pause(10)
        before = node.tips
        chain.publish()
        chain.checkpoint(2)
        chain.propose(2)
        upstream.tamper = lambda asked, parameters, result: tamper(parameters, result) if asked == method else result
        node.control.resume()
        node.wait(lambda: re.search(reason, node.follower.trouble or ""))
        node.wait_for_upstream("put aside")
        assert node.ingestor.view.block_number_by_hash(before.proposed.hash) == before.proposed.number


def test_a_reorg_to_blocks_that_do_not_verify_leaves_the_old_ones(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        before, contents = node.tips, node.contents()
        with upstream.lock:
            chain.undo_to(chain.tip - 2)
            chain.propose(3)
            right = chain.blocks[-2].to_json()
            wrong = flip(right, ("body", "txEffects", 0, "nullifiers", 0))
            upstream.tamper = lambda method, parameters, result: (
                [wrong if block == right else block for block in result] if method == "node_getBlocks" else result
            )
            node.published.clear()
        node.wait_for_upstream("put aside", f"block {before.proposed.number}")
        assert set(node.published) <= {before.proposed.number}
        assert node.tips == before
        assert node.contents() == contents
        assert any("reorg" in line for line in log_lines(caplog))
        upstream.tamper = lambda _method, _parameters, result: result
        node.wait_for(chain)


def test_a_state_root_that_does_not_come_out_is_logged_with_both_roots(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    """Even for an operator who believes the source: these are computed in any case."""
    with caught_up(tmp_path, chain, upstream, verify=False) as node:
        with upstream.lock:
            chain.propose()
            block = chain.blocks[-1].to_json()
            wrong = flip(block, ("header", "state", "partial", "noteHashTree", "root"))
            upstream.answers["node_getBlocks"] = lambda _: [wrong]
            announced = chain.tips().to_json()
            announced["proposed"]["hash"] = "0x" + BlockHeader.from_json(wrong["header"]).hash().hex()
            upstream.answers["node_getL2Tips"] = lambda _: announced
        found = node.wait_for_upstream("put aside")
        assert wrong["header"]["state"]["partial"]["noteHashTree"]["root"] in found["reason"]
        assert block["header"]["state"]["partial"]["noteHashTree"]["root"] in found["reason"]
        upstream.answers["node_getBlocks"] = upstream.blocks
        upstream.answers["node_getL2Tips"] = upstream.l2_tips


def test_a_tip_that_goes_back_for_a_moment_takes_nothing_away(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with caught_up(tmp_path, chain, upstream) as node:
        tips = chain.tips()
        old = L2Tips(tips.checkpointed.block, tips.checkpointed, tips.proven, tips.finalized).to_json()
        left = [2]

        def tamper(method: str, parameters: list[Any], result: Any) -> Any:
            if method == "node_getL2Tips" and left[0] > 0:
                left[0] -= 1
                return old
            if method == "node_getBlockHeader" and left[0] > 0:
                return None
            return result

        node.published.clear()
        upstream.tamper = tamper
        node.wait(lambda: left[0] == 0)
        count = len(upstream.requests)
        node.wait(lambda: len(upstream.requests) > count + 10)
        assert node.tips == tips
        assert node.published == []


def test_a_chain_without_the_finalized_block_is_refused(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        before = node.tips
        final = before.finalized.block.number
        with upstream.lock:
            chain.undo_to(final - 1)
            for _ in range(5):
                chain.checkpoint(2)
        node.wait_for_upstream("put aside", f"it contradicts the finalized block {final}")
        assert node.tips == before


def test_two_upstreams_that_disagree_are_noticed(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    with scripted_upstream(chain) as other, following(tmp_path / "node", upstream.url, other.url) as node:
        node.follower._options = FollowerOptions(poll_interval_s=0.005)
        node.follower._comparison.interval_s = 0.01
        node.wait_for(chain)
        wrong = chain.blocks[0].header.to_json()
        other.answers["node_getBlockHeader"] = lambda _: wrong
        node.wait(lambda: "it disagrees with" in str(node.origins.upstreams.describe()[1]["reason"]))
        assert node.follower.trouble is None
        with upstream.lock:
            chain.checkpoint()
        node.wait_for(chain)


def test_a_second_node_that_swallows_requests_does_not_hold_up_the_chain(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as hole,
        following(
            tmp_path / "node",
            upstream.url,
            f"http://127.0.0.1:{hole.getsockname()[1]}",
            upstream_timeout_s=10 * PATIENCE_S,
        ) as node,
    ):
        node.follower._options = FollowerOptions(poll_interval_s=0.005)
        node.follower._comparison.interval_s = 0.01
        node.wait_for(chain)
        for _ in range(5):
            with upstream.lock:
                chain.propose()
            node.wait_for(chain)


# ---- what others may learn of it ---------------------------------------------------------------------------


def test_the_status_does_not_tell_where_an_upstream_is(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    address = upstream.url.removeprefix("http://")

    def page_with_its_address(handler: Any, _body: bytes) -> bool:
        handler.reply(f"<html>nginx at http://{address}/ is closed</html>".encode())
        return True

    def refusal_with_its_address(handler: Any, body: bytes) -> bool:
        calls = json.loads(body)
        error = {"code": -32000, "message": f"ask http://{address}/ later"}
        answers = [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in as_list(calls)]
        handler.reply(json.dumps(answers if isinstance(calls, list) else answers[0]).encode())
        return True

    with caught_up(tmp_path, chain, upstream) as node:
        for disturbance, trace in ((page_with_its_address, "nginx at"), (refusal_with_its_address, "ask http://(its")):
            with upstream.lock:
                upstream.disturb = disturbance
                chain.propose()
            node.wait(lambda wanted=trace: wanted in json.dumps(node.follower.describe()))  # type: ignore[misc]
            shown = json.dumps(node.follower.describe())
            assert address not in shown
            assert "127.0.0.1" not in shown
            with upstream.lock:
                upstream.disturb = lambda _handler, _body: False
            node.wait_for(chain)


def as_list(calls: Any) -> list[Any]:
    return calls if isinstance(calls, list) else [calls]
