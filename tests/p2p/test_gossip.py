"""gossipsub as a state machine: meshes, back-off, ihave and iwant, verdicts, floods."""

from __future__ import annotations

import random

import pytest
from tests.p2p.vectors import VERSION

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.gossip import wire
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.router import Gossip
from fastnode.p2p.gossip.score_parameters import parameters_of
from fastnode.p2p.gossip.scores import PeerScores
from fastnode.p2p.gossip.topics import Topic, message_id, pack, topic_name
from fastnode.p2p.gossip.wire import GossipOptions
from fastnode.p2p.transport.encoding import protobuf

NAMES = {topic: topic_name(topic, VERSION) for topic in Topic}
TX = NAMES[Topic.TX]


class Table:
    """One gossip and what it says to its peers, by hand of a clock."""

    def __init__(self, peers: int = 0, *, frames_topic: bool = False, **options: object) -> None:
        self.application: dict[str, float] = {}
        parameters = parameters_of(NAMES, slot_s=36, heartbeat_s=0.7, committee_size=4)
        self.scores = PeerScores(parameters, lambda peer: self.application.get(peer, 0.0))
        made = GossipOptions(**options)  # type: ignore[arg-type]
        self.gossip = Gossip(NAMES, self.scores, options=made, dice=random.Random(1), frames_topic=frames_topic)
        self.now = 1000.0
        for number in range(peers):
            self.add(f"peer {number}")
        self.said()

    def add(self, peer: str, *, is_outbound: bool = True, is_direct: bool = False) -> None:
        self.gossip.add_peer(
            peer, f"10.0.0.{len(self.gossip.mesh)}{peer}", is_outbound=is_outbound, is_direct=is_direct
        )
        self.hear(peer, wire.subscriptions(NAMES.values()))

    def hear(self, peer: str, rpc: bytes) -> list[bytes]:
        """The ids of what is to be judged."""
        return [found.message_id for found in self.gossip.receive(peer, rpc, self.now)]

    def beat(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 0.7
            self.gossip.heartbeat(self.now)

    def said(self) -> dict[str, list[object]]:
        """What each peer was told since: (messages, ihave, iwant, graft, prune)."""
        found: dict[str, list[object]] = {}
        for peer, data in self.gossip.take_output():
            [rpc], _ = peer_frames.delimited_messages(data, 0, len(data), 1)
            read = peer_frames.read_rpc(rpc, items_max=1000, ids_max=9999, topic_bytes_max=200)
            kinds = dict(zip(("message", "ihave", "iwant", "graft", "prune"), read[1:], strict=False))
            found.setdefault(peer, []).extend((kind, item) for kind, items in kinds.items() for item in items)
        return found

    def told(self, kind: str) -> dict[str, list[object]]:
        return {
            peer: items
            for peer, said in self.said().items()
            if (items := [item for what, item in said if what == kind])  # type: ignore[misc]
        }


def sent(payload: bytes) -> tuple[bytes, bytes]:
    """The message as it travels, and its id."""
    data, packed = pack(payload)
    return wire.message(TX, packed), message_id(TX, data)


def test_a_mesh_grows_to_its_degree_and_shrinks_from_above_it() -> None:
    table = Table(20)
    table.beat()
    assert len(table.gossip.mesh[TX]) == 8
    assert sum(TX.encode() in grafts for grafts in table.told("graft").values()) == 8
    table = Table(20)
    for number in range(20):
        table.hear(f"peer {number}", wire.control(wire.graft(TX)))
    assert len(table.gossip.mesh[TX]) == 20  # all were dialled: those are taken beyond the maximum
    table.beat()
    assert len(table.gossip.mesh[TX]) == 8
    assert sum((TX.encode(), 60) in prunes for prunes in table.told("prune").values()) == 12


def test_above_the_maximum_peers_that_have_dialled_are_refused() -> None:
    table = Table()
    for number in range(13):
        table.add(f"peer {number}", is_outbound=False)
        table.hear(f"peer {number}", wire.control(wire.graft(TX)))
    assert len(table.gossip.mesh[TX]) == 12
    assert table.told("prune") == {"peer 12": [(TX.encode(), 60)]}


def test_a_pruned_peer_is_left_alone_for_a_minute_and_a_graft_before_is_held_against_it() -> None:
    table = Table(1)
    table.beat()
    table.hear("peer 0", wire.control(wire.prune(TX)))
    table.said()
    table.beat(80)  # 56 s
    assert "peer 0" not in table.gossip.mesh[TX]
    table.hear("peer 0", wire.control(wire.graft(TX)))
    assert table.told("prune") == {"peer 0": [(TX.encode(), 60)]}
    assert table.scores.score("peer 0") == -10
    for _ in range(5):
        table.hear("peer 0", wire.control(wire.graft(TX)))  # at once after a prune: twice as bad
    assert table.scores.score("peer 0") == -10 * 11**2
    table.scores.decay(table.now)
    table.beat(90)
    assert "peer 0" not in table.gossip.mesh[TX], "its score is below zero"


def test_a_message_is_forwarded_once_it_is_accepted_and_to_the_mesh_alone() -> None:
    table = Table(6)
    table.beat()
    table.said()
    rpc, identity = sent(b"tx")
    assert table.hear("peer 0", rpc) == [identity]
    assert table.hear("peer 1", rpc) == []
    assert table.said() == {}
    assert table.gossip.judge(identity, Verdict.ACCEPT, table.now) == 4, "not to those who have it"
    assert set(table.told("message")) == {"peer 2", "peer 3", "peer 4", "peer 5"}
    assert table.gossip.judge(identity, Verdict.ACCEPT, table.now) == 0


def test_who_is_in_no_mesh_is_offered_a_message_at_once_and_not_too_many() -> None:
    table = Table(3)
    table.beat()
    table.hear("peer 2", wire.control(wire.prune(TX)))
    table.said()
    offered = []
    for number in range(6):
        rpc, identity = sent(b"tx %d" % number)
        table.hear("peer 0", rpc)
        table.gossip.judge(identity, Verdict.ACCEPT, table.now)
        offered.append((TX.encode(), [identity]))
    assert table.told("ihave") == {"peer 2": offered[:4]}
    table.beat()
    [(_, ids)] = table.told("ihave")["peer 2"]  # type: ignore[misc]
    assert len(ids) == 6, "what is beyond waits for the heartbeat"
    table.gossip.publish(Topic.TX, b"own", table.now)
    assert table.told("message").keys() == {"peer 0", "peer 1", "peer 2"}, "they get it: nothing is to be offered"
    rpc, identity = sent(b"of the one outside")
    table.hear("peer 2", rpc)
    table.gossip.judge(identity, Verdict.ACCEPT, table.now)
    assert table.told("ihave") == {}


@pytest.mark.parametrize("verdict", [Verdict.IGNORE, Verdict.REJECT])
def test_what_is_not_accepted_is_neither_forwarded_nor_given(verdict: Verdict) -> None:
    table = Table(6)
    table.beat()
    table.said()
    rpc, identity = sent(b"tx")
    table.hear("peer 0", rpc)
    table.hear("peer 1", rpc)
    assert table.gossip.judge(identity, verdict, table.now) == 0
    table.hear("peer 2", rpc)
    table.hear("peer 3", wire.control(wire.iwant([identity])))
    table.beat()
    assert {kind for items in table.said().values() for kind, _ in items} <= {"prune"}  # type: ignore[misc]
    blamed = -20.0 if verdict is Verdict.REJECT else 0.0
    assert [table.scores.score(f"peer {number}") for number in range(4)] == [blamed, blamed, blamed, 0.0]


def test_who_is_not_in_the_mesh_is_told_and_gets_what_it_asks_for_three_times() -> None:
    table = Table(12)
    table.beat()
    table.said()
    assert table.gossip.publish(Topic.TX, b"tx", table.now) == 8
    assert table.gossip.publish(Topic.TX, b"tx", table.now) is None
    assert set(table.told("message")) == table.gossip.mesh[TX]
    table.beat()
    _, identity = sent(b"tx")
    offered = table.told("ihave")
    assert set(offered) == {f"peer {number}" for number in range(12)} - table.gossip.mesh[TX]
    assert all(items == [(TX.encode(), [identity])] for items in offered.values())
    asker = next(iter(offered))
    given = 0
    for _ in range(5):
        table.hear(asker, wire.control(wire.iwant([identity])))
        given += len(table.told("message").get(asker, []))
    assert given == 3
    table.beat(6)
    table.hear("peer 0", wire.control(wire.iwant([identity])))
    assert table.told("message") == {}, "it has left the cache"


def test_without_peers_a_message_may_be_published_again() -> None:
    table = Table()
    assert table.gossip.publish(Topic.TX, b"tx", table.now) == 0
    table.add("peer 0")
    assert table.gossip.publish(Topic.TX, b"tx", table.now) == 1


def test_a_message_that_is_kept_goes_to_peers_that_come_and_that_come_back_while_it_is_of_use() -> None:
    table = Table()

    def given(peer: str) -> list[bytes]:
        return [item[1] for item in table.told("message").get(peer, [])]  # type: ignore[index]

    topic, first, second = Topic.BLOCK_PROPOSAL, pack(b"first")[1], pack(b"second")[1]
    # As of a proposer whose only peer has just closed the connection.
    assert table.gossip.publish(topic, b"first", table.now, until=table.now + 10) == 0
    assert table.gossip.publish(topic, b"first", table.now) is None
    table.add("peer 0")
    assert given("peer 0") == [first]
    table.hear("peer 0", wire.subscriptions([NAMES[topic]]))
    assert given("peer 0") == [], "it has it"
    assert table.gossip.publish(topic, b"second", table.now, until=table.now + 10) == 1
    assert given("peer 0") == [second]
    table.gossip.remove_peer("peer 0", table.now)
    table.add("peer 0")
    assert given("peer 0") == [first, second], "one of them may have been under way"
    table.beat(15)
    table.said()
    table.add("peer 1")
    assert given("peer 1") == [], "their time is over"


def test_what_a_peer_offers_is_asked_for_and_a_broken_promise_is_held_against_it() -> None:
    table = Table(2)
    _, identity = sent(b"tx")
    table.hear("peer 0", wire.control(wire.ihave(TX, [identity])))
    assert table.told("iwant") == {"peer 0": [identity]}
    table.beat(4)
    assert table.scores.score("peer 0") == 0
    table.beat()
    assert table.scores.score("peer 0") == -10
    table.hear("peer 1", wire.control(wire.ihave(TX, [identity])))
    table.hear("peer 1", sent(b"tx")[0])
    table.beat(6)
    assert table.scores.score("peer 1") == 0


def test_ids_of_5_x_count_the_bytes_of_the_topic_in_what_is_offered_and_in_what_comes() -> None:
    """Those of 4.x name no message there, and a message is known under the id that others offer it by."""
    table = Table(2, frames_topic=True)
    data, packed = pack(b"offered")
    framed = message_id(TX, data, frames_topic=True)
    table.hear("peer 0", wire.control(wire.ihave(TX, [framed])))
    assert table.told("iwant") == {"peer 0": [framed]}
    assert table.hear("peer 0", wire.message(TX, packed)) == [framed]
    table.hear("peer 1", wire.control(wire.ihave(TX, [framed])))
    assert table.told("iwant") == {}, "it is here"
    table.hear("peer 1", wire.control(wire.ihave(TX, [message_id(TX, data)])))
    assert table.told("iwant") == {"peer 1": [message_id(TX, data)]}


def test_a_promise_is_not_broken_while_this_node_does_not_run() -> None:
    table = Table(1)
    table.beat()
    rpc, identity = sent(b"tx")
    table.hear("peer 0", wire.control(wire.ihave(TX, [identity])))
    table.now += 60
    table.beat()
    assert table.scores.score("peer 0") == 0, "what it has delivered is not read yet"
    table.beat(5)
    assert table.scores.score("peer 0") == -10, "it has not"
    assert table.hear("peer 0", rpc) == [identity]


def test_of_a_flood_of_offers_a_bounded_part_is_looked_at() -> None:
    table = Table(1)
    asked = 0
    for flood in range(20):
        ids = [flood.to_bytes(4, "big") + number.to_bytes(16, "big") for number in range(4000)]
        table.hear("peer 0", wire.control(wire.ihave(TX, ids)))
        asked += len(table.told("iwant").get("peer 0", []))
    assert asked == 5000


@pytest.mark.parametrize("field", [1, 3, 5, 6])
def test_a_signed_message_is_invalid(field: int) -> None:
    table = Table(1)
    _, packed = pack(b"tx")
    assert table.hear("peer 0", protobuf((2, protobuf((2, packed), (4, TX), (field, b"x"))))) == []
    assert table.scores.score("peer 0") == -20


@pytest.mark.parametrize("content", [b"\xff" * 20, b"\x80\x80\x80\x01" + bytes(10), b"\x05abc"])
def test_what_is_no_snappy_or_too_large_is_invalid(content: bytes) -> None:
    table = Table(1)
    assert table.hear("peer 0", wire.message(TX, content)) == []
    assert table.scores.score("peer 0") == -20


def test_what_is_no_message_of_gossip_ends_the_connection() -> None:
    table = Table(1)
    with pytest.raises(PeerFault, match="gossip"):
        table.hear("peer 0", b"\xff\xff")


def test_messages_that_nobody_judges_do_not_fill_the_memory() -> None:
    table = Table(20)
    for number in range(3000):
        table.hear(f"peer {number % 20}", sent(b"%d" % number)[0])
    assert table.gossip.counts["tx", "received"] == 1000
    assert table.gossip.counts["tx", "no room"] == 2000
    alone = Table(1)
    for number in range(300):
        alone.hear("peer 0", sent(b"%d" % number)[0])
    assert alone.gossip.counts["tx", "received"] == 200


def test_a_peer_with_a_very_low_score_is_not_heard_and_a_direct_one_always_is() -> None:
    table = Table(1)
    table.add("friend", is_direct=True)
    table.application = {"peer 0": -201.0, "friend": -201.0}
    assert table.hear("peer 0", sent(b"one")[0]) == []
    assert len(table.hear("friend", sent(b"two")[0])) == 1
    table.said()
    assert table.gossip.publish(Topic.TX, b"three", table.now) == 1
    assert set(table.told("message")) == {"friend"}
    table.hear("friend", wire.control(wire.graft(TX)))
    assert table.told("prune") == {"friend": [(TX.encode(), 60)]}, "direct peers are in no mesh"


def test_a_mesh_peer_with_a_score_below_zero_is_pruned() -> None:
    table = Table(4)
    table.beat()
    table.said()
    table.application = {"peer 2": -2.0}
    table.beat()
    assert set(table.told("prune")) == {"peer 2"}
    assert "peer 2" not in table.gossip.mesh[TX]


def test_who_delivers_too_little_stays_in_a_small_mesh_and_leaves_a_large_one() -> None:
    """With the score that the reference gives it, below 0; it may still be the only one there is."""
    proposals = NAMES[Topic.CHECKPOINT_PROPOSAL]
    for peers, stay in ((3, 3), (8, 4)):
        table = Table(peers)
        table.beat()
        assert len(table.gossip.mesh[proposals]) == peers
        table.now += 25 * 36.0 + 1  # P3 counts from now on
        table.scores.decay(table.now)
        assert all(table.scores.score(f"peer {number}") < 0 for number in range(peers))
        table.beat()
        assert len(table.gossip.mesh[proposals]) == stay
        assert len(table.gossip.mesh[TX]) == stay


def test_who_has_delivered_too_little_is_grafted_again_where_hardly_anyone_is() -> None:
    table = Table(1)
    table.beat()
    table.now += 25 * 36.0 + 1
    table.scores.decay(table.now)
    table.hear("peer 0", wire.control(*(wire.prune(name) for name in NAMES.values())))
    assert table.scores.score("peer 0") < 0
    table.now += 62
    table.beat()
    assert table.gossip.mesh[TX] == {"peer 0"}


def test_what_a_banned_peer_has_sent_is_passed_over_and_taken_from_others() -> None:
    table = Table(2)
    rpc, identity = sent(b"good")
    assert table.hear("peer 0", rpc) == [identity]
    assert table.gossip.pass_over(identity)
    assert table.gossip.held_bytes == 0
    assert table.hear("peer 1", rpc) == [identity], "as if it had never come"


def test_what_another_peer_has_sent_too_is_judged_even_if_the_first_is_banned() -> None:
    table = Table(2)
    rpc, identity = sent(b"good")
    table.hear("peer 0", rpc)
    table.hear("peer 1", rpc)
    assert not table.gossip.pass_over(identity)
    assert table.gossip.judge(identity, Verdict.ACCEPT, table.now) == 0


def test_what_waits_for_its_verdict_counts_with_what_it_decompresses_to() -> None:
    table = Table(10)
    for number in range(1000):
        table.hear(f"peer {number % 10}", sent(number.to_bytes(2, "big") + bytes(500_000))[0])
    assert table.gossip.counts["tx", "no room"] > 0
    assert 60 << 20 < table.gossip.held_bytes <= 64 << 20
    alone = Table(1)
    for number in range(100):
        alone.hear("peer 0", sent(number.to_bytes(2, "big") + bytes(500_000))[0])
    assert 7 << 20 < alone.gossip.held_bytes <= 8 << 20


def test_back_offs_of_the_last_run_are_kept() -> None:
    table = Table(1)
    table.beat()
    table.hear("peer 0", wire.control(wire.prune(TX)))
    remaining = table.gossip.back_offs(table.now)
    assert remaining == {(TX, "peer 0"): 60}
    again = Table()
    again.gossip.keep_back_offs(remaining | {("no topic of this network", "peer 0"): 5.0}, again.now)
    again.add("peer 0")
    again.beat()
    assert TX.encode() not in again.told("graft")["peer 0"]
    again.now += 61
    again.beat()
    assert again.told("graft") == {"peer 0": [TX.encode()]}


def test_a_peer_that_is_gone_is_in_no_mesh() -> None:
    table = Table(2)
    table.beat()
    table.gossip.remove_peer("peer 0", table.now)
    assert table.gossip.mesh[TX] == {"peer 1"}
    table.hear("peer 1", wire.control(wire.prune(TX)))
    assert table.gossip.mesh[TX] == set()
