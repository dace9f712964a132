"""The one door to the keys: local ones, remote signers, and the lock that comes before each signature."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import psycopg
import pytest
from coincurve import PrivateKey
from tests.http_stand_in import HttpStandIn, answer_json
from tests.publishing.recorded import data_of, rows

from fastnode.errors import DutyAlreadySigned, DutyConflict, HaDatabaseError, SigningError
from fastnode.ha.duties import DutyLocks
from fastnode.ha.duty import DutyType
from fastnode.keystore.private_keys import EthKey, RemoteSigner
from fastnode.outgoing.network import Network
from fastnode.protocol import rlp
from fastnode.protocol.ethereum import keccak_256, recover_signer, signed_digest
from fastnode.publishing.envelope import Transaction
from fastnode.publishing.signing import SigningDoor

ROLLUP = b"\x32" * 20
SECRET = bytes(range(1, 33))
KEY = EthKey(SECRET)
ADDRESS = data_of(KEY.address)
DIGEST = keccak_256(b"digest")
OTHER_DIGEST = keccak_256(b"another")
TRANSACTION = Transaction(
    chain_id=31337,
    nonce=4,
    tip_max=1,
    fee_max=2,
    gas=3,
    to=b"\2" * 20,
    data=b"data",
    blob_fee_max=5,
    versioned_hashes=(b"\1" * 32,),
)


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def door(network: Network) -> SigningDoor:
    return SigningDoor(lambda: {ADDRESS: KEY}, ROLLUP, network)


class Web3Signer:
    """Signs as Web3Signer does.  ``spoil`` changes what it answers; ``keys`` it has."""

    def __init__(self) -> None:
        self.key = PrivateKey(SECRET)
        self.asked: list[tuple[str, list[Any]]] = []
        self.spoil: Any = lambda answer: answer
        self.url = ""

    def answer(self, method: str, params: list[Any]) -> Any:
        self.asked.append((method, params))
        if method == "eth_sign":
            data = bytes.fromhex(params[1][2:])
            mark = b"\x19Ethereum Signed Message:\n" + str(len(data)).encode()
            return self._signature(keccak_256(mark + data))
        if method == "eth_signTypedData_v4":
            return self._signature(bytes.fromhex(params[1]["message"]["digest"][2:]))
        assert method == "eth_signTransaction"
        fields = params[0]
        numbers = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas")
        items: list[Any] = [int(fields[name], 16) for name in numbers]
        items += [bytes.fromhex(fields["to"][2:]), int(fields["value"], 16), bytes.fromhex(fields["data"][2:]), []]
        items += [
            int(fields["maxFeePerBlobGas"], 16),
            [bytes.fromhex(each[2:]) for each in fields["blobVersionedHashes"]],
        ]
        signature = self.key.sign_recoverable(keccak_256(b"\3" + rlp.encode(items)), hasher=None)
        items += [signature[64], int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")]
        return "0x" + (b"\3" + rlp.encode(items)).hex()

    def _signature(self, digest: bytes) -> str:
        signature = self.key.sign_recoverable(digest, hasher=None)
        return "0x" + (signature[:64] + bytes([signature[64] + 27])).hex()


@contextmanager
def web3_signer() -> Iterator[Web3Signer]:
    signer = Web3Signer()

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        question = json.loads(body)
        result = signer.spoil(signer.answer(question["method"], question["params"]))
        answer_json(handler, {"jsonrpc": "2.0", "id": question["id"], "result": result})

    with HttpStandIn(respond) as server:
        signer.url = server.url
        yield signer


# ---- keys -----------------------------------------------------------------------------------------


def test_a_local_key_signs_as_the_network_wants_it(door: SigningDoor) -> None:
    duty = door.duty(DutyType.ATTESTATION, ADDRESS, 7)
    signature = door.sign(duty, DIGEST)
    assert signature[64] in (27, 28)
    assert recover_signer(signed_digest(DIGEST), signature) == ADDRESS
    assert door.sign_message(ADDRESS, DIGEST) == signature
    assert recover_signer(DIGEST, door.sign_typed(duty, DIGEST, {})) == ADDRESS
    assert door.sign_transaction(ADDRESS, TRANSACTION).sender() == ADDRESS
    assert door.signed == {"ATTESTATION": 2, "MESSAGE": 1, "TRANSACTION": 1}


def test_a_remote_signer_signs_the_same(door: SigningDoor, network: Network) -> None:
    with web3_signer() as signer:
        remote = SigningDoor(lambda: {ADDRESS: RemoteSigner(KEY.address, signer.url)}, ROLLUP, network)
        duty = remote.duty(DutyType.ATTESTATION, ADDRESS, 7)
        assert remote.sign(duty, DIGEST) == door.sign(duty, DIGEST)
        typed = {"message": {"digest": "0x" + DIGEST.hex()}}
        assert remote.sign_typed(duty, DIGEST, typed) == door.sign_typed(duty, DIGEST, typed)
        assert remote.sign_transaction(ADDRESS, TRANSACTION) == door.sign_transaction(ADDRESS, TRANSACTION)
    assert [method for method, _ in signer.asked] == ["eth_sign", "eth_signTypedData_v4", "eth_signTransaction"]
    assert signer.asked[0][1] == [KEY.address, "0x" + DIGEST.hex()]


@pytest.mark.parametrize(
    "spoilt",
    [None, "", "0x", "0xzz", 5, {}, "0x" + "11" * 65, "0x" + "00" * 65, "0x03c0", "0x" + "ff" * 200],
    ids=str,
)
def test_a_remote_signer_that_gives_anything_else_is_refused(network: Network, spoilt: Any) -> None:
    with web3_signer() as signer:
        signer.spoil = lambda answer: spoilt
        remote = SigningDoor(lambda: {ADDRESS: RemoteSigner(KEY.address, signer.url)}, ROLLUP, network)
        with pytest.raises(SigningError, match="remote signer of 0x"):
            remote.sign_message(ADDRESS, DIGEST)
        with pytest.raises(SigningError, match="remote signer of 0x"):
            remote.sign_transaction(ADDRESS, TRANSACTION)
    assert remote.failed == {"MESSAGE": 1, "TRANSACTION": 1}


def test_a_remote_signer_with_another_key_is_refused(network: Network) -> None:
    with web3_signer() as signer:
        signer.key = PrivateKey(b"\x55" * 32)
        remote = SigningDoor(lambda: {ADDRESS: RemoteSigner(KEY.address, signer.url)}, ROLLUP, network)
        with pytest.raises(SigningError, match="no signature of that key"):
            remote.sign_message(ADDRESS, DIGEST)
        with pytest.raises(SigningError, match="signed with another key"):
            remote.sign_transaction(ADDRESS, TRANSACTION)


def test_a_remote_signer_that_is_away_is_one_line(network: Network) -> None:
    remote = SigningDoor(lambda: {ADDRESS: RemoteSigner(KEY.address, "http://127.0.0.1:1")}, ROLLUP, network)
    with pytest.raises(SigningError, match="does not answer eth_sign") as caught:
        remote.sign_message(ADDRESS, DIGEST)
    assert "\n" not in str(caught.value)


def test_an_address_without_a_key_is_refused(door: SigningDoor) -> None:
    with pytest.raises(SigningError, match=f"there is no key of 0x{'09' * 20}"):
        door.sign_message(b"\x09" * 20, DIGEST)
    assert not door.holds(b"\x09" * 20)
    assert door.holds(ADDRESS)


def test_keys_of_a_reload_are_used_at_once(network: Network) -> None:
    keys: dict[bytes, EthKey] = {}
    door = SigningDoor(lambda: keys, ROLLUP, network)
    assert door.addresses == ()
    keys[ADDRESS] = KEY
    assert recover_signer(signed_digest(DIGEST), door.sign_message(ADDRESS, DIGEST)) == ADDRESS


def test_no_key_can_be_read_anywhere(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    door = SigningDoor(lambda: {ADDRESS: KEY}, ROLLUP, network)
    shown = [repr(door), str(vars(door)), repr(KEY), repr(door.sign_transaction(ADDRESS, TRANSACTION))]
    with pytest.raises(SigningError) as caught:
        door.sign_message(b"\x09" * 20, DIGEST)
    shown += [str(caught.value), repr(caught.value), caplog.text, *(str(vars(record)) for record in caplog.records)]
    for text in shown:
        assert SECRET.hex() not in text
        assert repr(SECRET) not in text


# ---- duties that several nodes share --------------------------------------------------------------


@contextmanager
def shared_door(database: str, node_id: str, **limits: Any) -> Iterator[SigningDoor]:
    with Network() as network, DutyLocks(database, node_id=node_id, **limits) as locks:
        yield SigningDoor(lambda: {ADDRESS: KEY}, ROLLUP, network, locks)


def table(database: str) -> list[dict[str, Any]]:
    with psycopg.connect(database, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute("SELECT * FROM validator_duties ORDER BY started_at").fetchall()


def test_the_rows_are_those_of_the_reference(database: str) -> None:
    """Its duties of recorded slots, signed here: every column that does not name a node or a time is the same."""
    count = 0
    with Network() as network:
        for row in rows("ha_duties"):
            for duty in row["duties"]:
                address = data_of(duty["validator_address"])
                with DutyLocks(database, node_id="here") as locks:
                    # The key is not ours: what is compared is what stands around the signature.
                    door = SigningDoor(
                        lambda address=address: {address: KEY}, data_of(duty["rollup_address"]), network, locks
                    )
                    kind, index = DutyType(duty["duty_type"]), duty["block_index_within_checkpoint"]
                    ours = door.duty(
                        kind,
                        address,
                        int(duty["slot"]),
                        block_number=int(duty["block_number"]),
                        block_index=None if index == -1 else index,
                    )
                    door.sign(ours, data_of(duty["message_hash"]))
                count += 1
    written = table(database)
    assert count == len(written) >= 62
    recorded = [duty for row in rows("ha_duties") for duty in row["duties"]]
    same = ("rollup_address", "validator_address", "slot", "block_number", "block_index_within_checkpoint")
    for theirs, ours_ in zip(recorded, written, strict=True):
        for column in (*same, "duty_type", "status", "message_hash"):
            assert str(ours_[column]) == str(theirs[column]), column
        assert len(ours_["signature"]) == len(theirs["signature"]) == 2 + 130
        assert ours_["signature"][-2:] in ("1b", "1c")


def test_a_duty_is_signed_by_one_node_only(database: str) -> None:
    with shared_door(database, "a") as first, shared_door(database, "b") as second:
        duty = first.duty(DutyType.CHECKPOINT_PROPOSAL, ADDRESS, 7)
        signature = first.sign(duty, DIGEST)
        with pytest.raises(DutyAlreadySigned) as caught:
            second.sign(duty, DIGEST)
        assert caught.value.signature == signature
        with pytest.raises(DutyConflict):
            second.sign(duty, OTHER_DIGEST)
        with pytest.raises(DutyConflict):
            first.sign(duty, OTHER_DIGEST)
        assert second.yielded == {"CHECKPOINT_PROPOSAL": 2}
        assert second.signed == {}


def test_when_the_key_does_not_sign_another_node_may(database: str) -> None:
    with shared_door(database, "a") as first, shared_door(database, "b") as second, Network() as network:
        away = SigningDoor(
            lambda: {ADDRESS: RemoteSigner(KEY.address, "http://127.0.0.1:1")}, ROLLUP, network, first._locks
        )
        duty = first.duty(DutyType.ATTESTATION, ADDRESS, 7)
        with pytest.raises(SigningError):
            away.sign(duty, DIGEST)
        assert table(database) == []
        assert second.sign(duty, DIGEST)


def test_without_the_database_nothing_is_signed(empty_database: str) -> None:
    with shared_door(empty_database, "a") as door:  # it has no tables
        with pytest.raises(HaDatabaseError):
            door.sign(door.duty(DutyType.ATTESTATION, ADDRESS, 7), DIGEST)
        assert door.signed == {}
        assert door.failed == {"ATTESTATION": 1}
        # Signing that needs no lock goes on.
        assert door.sign_transaction(ADDRESS, TRANSACTION).sender() == ADDRESS


def test_many_threads_of_two_nodes_sign_each_duty_once(database: str) -> None:
    with shared_door(database, "a") as first, shared_door(database, "b") as second, ThreadPoolExecutor(8) as threads:
        signed: list[int] = []
        lock = threading.Lock()

        def sign(door: SigningDoor, slot: int) -> None:
            # Each node builds its own block of the slot.
            digest = keccak_256(b"%d %d" % (slot, id(door)))
            try:
                door.sign(door.duty(DutyType.BLOCK_PROPOSAL, ADDRESS, slot, block_index=0), digest)
            except DutyConflict:
                return
            with lock:
                signed.append(slot)

        for slot in range(40):
            doors = [first, second] * 2
            random.Random(slot).shuffle(doors)
            for door in doors:
                threads.submit(sign, door, slot)
    assert sorted(signed) == list(range(40))


SIGNER = """
import sys
from fastnode.ha.duties import DutyLocks
from fastnode.ha.duty import DutyType
from fastnode.errors import DutyError
from fastnode.keystore.private_keys import EthKey
from fastnode.outgoing.network import Network
from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.signing import SigningDoor

url, node, first = sys.argv[1:]
key = EthKey(bytes(range(1, 33)))
address = bytes.fromhex(key.address[2:])
with Network() as network, DutyLocks(url, node_id=node, signing_timeout_s=0.05, polling_interval_s=0.01) as locks:
    door = SigningDoor(lambda: {address: key}, bytes([0x32]) * 20, network, locks)
    for slot in range(int(first), 1_000_000):
        try:
            duty = door.duty(DutyType.CHECKPOINT_PROPOSAL, address, slot)
            signature = door.sign(duty, keccak_256(f"{node} {slot}".encode()))
        except DutyError:
            continue
        print(slot, signature.hex(), flush=True)
"""


@pytest.mark.long
def test_nodes_that_are_killed_at_random_never_sign_a_duty_twice(database: str) -> None:
    chance, published = random.Random(7), {}
    running = {name: _signer(database, name, 0) for name in "ab"}
    kills = 0
    while kills < 20:
        name = chance.choice("ab")
        process = running[name]
        assert process.stdout is not None
        last = 0
        for _ in range(chance.randint(1, 15)):
            line = process.stdout.readline()
            slot, signature = line.split()
            last = int(slot)
            assert published.setdefault(last, signature) == signature, f"slot {slot} was signed twice"
        process.kill()
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                slot, signature = line.split()
                last = int(slot)
                assert published.setdefault(last, signature) == signature, f"slot {slot} was signed twice"
        kills += 1
        running[name] = _signer(database, name, last + 1)
    for process in running.values():
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    rows_by_slot = {row["slot"]: row for row in table(database)}
    for slot, signature in published.items():
        row = rows_by_slot[slot]
        assert row["status"] == "signed"
        assert row["signature"] == "0x" + signature


def _signer(database: str, name: str, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SIGNER, database, name, str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
