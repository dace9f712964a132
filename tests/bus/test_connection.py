"""The connection to the bus: who may have it, and what is said while there is none."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.bus.nats import PATIENCE_S, NatsServer, open_bus

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.members import bucket_of
from fastnode.bus.options import BusOptions
from fastnode.bus.subjects import Subjects
from fastnode.config.settings import Settings
from fastnode.errors import SettingError, UpstreamUnavailable

SUBJECTS = Subjects("fastnode-1-1")


def use(url: str, **options: Any) -> None:
    """Store something, and read it."""
    bus = open_bus(url, **options)
    try:
        bus.set_up(bucket_of(SUBJECTS))
        bus.publish(Outgoing(SUBJECTS.value("a"), b"b"))
        message = bus.last(SUBJECTS.bucket, SUBJECTS.value("a"))
        assert message is not None
        assert message.data == b"b"
    finally:
        bus.close()


def test_an_nkey_opens_the_bus(tmp_path: Path) -> None:
    import nkeys

    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    (tmp_path / "user.nk").write_bytes(bytes(seed))
    public = nkeys.from_seed(seed).public_key.decode()
    server = NatsServer(tmp_path, more=f"authorization {{ users: [ {{ nkey: {public} }} ] }}")
    try:
        use(server.url, nkey=tmp_path / "user.nk")
    finally:
        server.stop()


def token(issuer: Any, subject: str, name: str, claims: dict[str, Any]) -> str:
    """A signed JWT as NATS has them."""

    def packed(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    record = {"iat": int(time.time()), "iss": issuer.public_key.decode(), "sub": subject, "name": name, "nats": claims}
    record["jti"] = base64.b32encode(hashlib.sha256(json.dumps(record).encode()).digest()).rstrip(b"=").decode()
    head = packed(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    text = f"{head}.{packed(json.dumps(record).encode())}"
    return f"{text}.{packed(issuer.sign(text.encode()))}"


def test_a_file_of_credentials_opens_the_bus_of_an_operator_and_one_of_a_stranger_does_not(tmp_path: Path) -> None:
    import nkeys

    def seed(kind: int) -> bytes:
        return bytes(nkeys.encode_seed(os.urandom(32), kind))

    def pair(kind: int) -> Any:
        return nkeys.from_seed(bytearray(seed(kind)))

    operator = pair(nkeys.PREFIX_BYTE_OPERATOR)
    accounts = {name: pair(nkeys.PREFIX_BYTE_ACCOUNT) for name in ("SYS", "FLEET", "STRANGER")}
    limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    limits |= {"wildcards": True, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    tokens = {}
    for name, key in accounts.items():
        given = {"limits": {k: v for k, v in limits.items() if name != "SYS" or "storage" not in k}}
        claims = given | {"type": "account", "version": 2}
        tokens[name] = token(operator, key.public_key.decode(), name, claims)
    name = operator.public_key.decode()
    known = {account: tokens[account] for account in ("SYS", "FLEET")}
    preload = "\n".join(f"{accounts[account].public_key.decode()}: {text}" for account, text in known.items())
    (tmp_path / "operator.jwt").write_text(token(operator, name, "operator", {"type": "operator", "version": 2}))
    server = NatsServer(
        tmp_path,
        more=f'operator: "{tmp_path / "operator.jwt"}"\n'
        f"system_account: {accounts['SYS'].public_key.decode()}\n"
        f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}",
    )
    try:
        for account in ("FLEET", "STRANGER"):
            secret = seed(nkeys.PREFIX_BYTE_USER)
            user = nkeys.from_seed(bytearray(secret)).public_key.decode()
            claims = {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
            (tmp_path / f"{account}.creds").write_text(
                f"-----BEGIN NATS USER JWT-----\n{token(accounts[account], user, 'node', claims)}\n"
                f"------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{secret.decode()}\n"
                f"------END USER NKEY SEED------\n"
            )
        use(server.url, credentials=tmp_path / "FLEET.creds")
        bus = Bus(BusOptions(urls=(server.url,), name="stranger", credentials=tmp_path / "STRANGER.creds"))
        bus.start()
        deadline = time.monotonic() + PATIENCE_S
        while "Authorization" not in str(bus.trouble):
            assert time.monotonic() < deadline, bus.trouble
            time.sleep(0.01)
        bus.close()
    finally:
        server.stop()


def test_a_password_in_the_url_opens_the_bus_and_without_it_the_reason_is_told(tmp_path: Path) -> None:
    server = NatsServer(tmp_path, more="authorization { user: one, password: two }")
    try:
        use(server.url.replace("//", "//one:two@"))
        bus = Bus(BusOptions(urls=(server.url,), name="stranger"))
        bus.start()
        deadline = time.monotonic() + PATIENCE_S
        while "Authorization" not in str(bus.trouble):
            assert time.monotonic() < deadline, bus.trouble
            time.sleep(0.01)
        with pytest.raises(UpstreamUnavailable, match="Authorization"):
            bus.last(SUBJECTS.bucket, SUBJECTS.value("a"))
        bus.close()
    finally:
        server.stop()


def test_the_bus_is_reached_over_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not here")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    server = NatsServer(tmp_path, more=f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}')
    try:
        use(server.url.replace("nats:", "tls:"), tls_ca=certificate)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bus_url": ("http://host",)}, "nats://HOST:PORT"),
        ({"bus_url": ("nats://host",), "bus_name": "a b"}, "letters, digits"),
        ({"bus_url": ("nats://host",), "bus_tls_key": Path("k")}, "go together"),
        ({"bus_url": ("nats://host",), "bus_nkey": Path("/nowhere/key")}, "no such file"),
    ],
)
def test_settings_of_the_bus_that_make_no_sense_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        BusOptions.of(Settings(**settings))


def test_a_stream_that_no_server_has_now_is_said_in_words(server: NatsServer) -> None:
    bus = open_bus(server.url)
    try:
        with pytest.raises(UpstreamUnavailable, match=r"^the bus: no server has the stream$"):
            bus.since("nothing", 1, "nothing.>")
    finally:
        bus.close()


def test_an_answer_that_goes_beyond_what_was_asked_for_is_refused(server: NatsServer) -> None:
    """Whoever may answer for the server gives a megabyte after the other, without an end."""
    bus = open_bus(server.url)
    part = bytes(1000 * 1000)

    async def lie(request: Any) -> None:
        for number in range(1, 40):
            headers = {"Nats-Sequence": str(number), "Nats-Subject": "lies.a"}
            await liar.publish(request.reply, part, headers=headers)

    async def answer() -> None:
        nonlocal liar
        liar = await nats.connect(server.url)
        await liar.subscribe("$JS.API.DIRECT.GET.lies", cb=lie)
        await liar.flush()
        is_there.set()
        while not is_over.is_set():
            await asyncio.sleep(0.01)
        await liar.close()

    liar: Any = None
    is_there, is_over = threading.Event(), threading.Event()
    answering = threading.Thread(target=lambda: asyncio.run(answer()))
    answering.start()
    try:
        assert is_there.wait(PATIENCE_S)
        with pytest.raises(UpstreamUnavailable, match="gives more than was asked for"):
            bus.since("lies", 1, "lies.>")
    finally:
        is_over.set()
        answering.join()
        bus.close()
