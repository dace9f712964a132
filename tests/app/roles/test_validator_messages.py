"""Messages signed with a validator's key, in this process or by a remote signer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from coincurve import PrivateKey
from tests.http_stand_in import HttpStandIn, answer_json
from tests.p2p.vectors import recorded

from fastnode.app.roles.validator_messages import ValidatorMessages
from fastnode.keystore.private_keys import EthKey, RemoteSigner
from fastnode.p2p.messages.request_forms import AuthRequest
from fastnode.protocol.ethereum import keccak_256, recover_signer, signed_digest

FIRST, SECOND = EthKey(bytes(31) + b"\1"), EthKey(bytes(31) + b"\2")
MESSAGE = AuthRequest.from_buffer(recorded("auth-request.bin")).signed


def messages(*signers: Any) -> ValidatorMessages:
    validators = SimpleNamespace(keystore=SimpleNamespace(validators=[SimpleNamespace(attester=s) for s in signers]))
    return ValidatorMessages(validators)  # type: ignore[arg-type]


def signer_of(signature: bytes | None) -> str:
    assert signature is not None
    assert signature[64:67] == bytes(3)
    address = recover_signer(signed_digest(keccak_256(MESSAGE)), signature[:64] + signature[67:])
    return "" if address is None else "0x" + address.hex()


def test_a_key_of_the_keystore_signs() -> None:
    assert signer_of(messages(FIRST, SECOND).sign(MESSAGE)) == FIRST.address


def test_a_member_of_the_committee_signs_rather_than_another() -> None:
    member = bytes.fromhex(SECOND.address[2:])
    assert signer_of(messages(FIRST, SECOND).sign(MESSAGE, member.__eq__)) == SECOND.address


def test_without_keys_nothing_is_signed() -> None:
    assert messages().sign(MESSAGE) is None


@pytest.mark.parametrize("key", [FIRST, SECOND], ids=["its own key", "another key"])
def test_a_remote_signer_is_asked_and_not_believed(key: EthKey) -> None:
    def respond(handler: Any, body: bytes) -> None:
        request = orjson.loads(body)
        request = request[0] if isinstance(request, list) else request
        assert request["method"] == "eth_sign"
        digest = signed_digest(bytes.fromhex(request["params"][1][2:]))
        made = PrivateKey(key.reveal()).sign_recoverable(digest, hasher=None)
        result = "0x" + (made[:64] + bytes([27 + made[64]])).hex()
        answer_json(handler, {"jsonrpc": "2.0", "id": request["id"], "result": result})

    with HttpStandIn(respond) as server:
        signed = messages(RemoteSigner(FIRST.address, server.url)).sign(MESSAGE)
    if key is FIRST:
        assert signer_of(signed) == FIRST.address
    else:
        assert signed is None


def test_a_remote_signer_that_is_away_signs_nothing() -> None:
    with HttpStandIn() as server:
        url = server.url
    assert messages(RemoteSigner(FIRST.address, url)).sign(MESSAGE) is None
