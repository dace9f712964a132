"""Asks the remote signers of a keystore whether they hold its addresses (Web3Signer: ``eth_accounts``)."""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import orjson

from fastnode.config.kinds import FileOrUrl
from fastnode.errors import KeystoreError
from fastnode.keystore.private_keys import RemoteSigner

__all__ = ["PAUSES_S", "probe_signers"]

#: Between two attempts; a signer that is just starting is waited for.
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)

_REQUEST_TIME_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 4 << 20
_ASKED_AT_A_TIME: Final = 8
_QUESTION: Final = b'{"jsonrpc":"2.0","method":"eth_accounts","params":[],"id":1}'


def probe_signers(
    signers: Iterable[RemoteSigner], stop: threading.Event, *, pauses_s: Sequence[float] = PAUSES_S
) -> None:
    """KeystoreError when a signer does not answer, again and again, or lacks an address; ``stop`` ends the waiting."""
    wanted: dict[str, set[str]] = {}
    for signer in signers:
        wanted.setdefault(signer.url, set()).add(signer.address)
    if not wanted:
        return
    with ThreadPoolExecutor(_ASKED_AT_A_TIME, thread_name_prefix="fastnode-signers") as threads:
        probes = [threads.submit(_probe, url, addresses, stop, pauses_s) for url, addresses in wanted.items()]
        for probe in probes:
            probe.result()


def _probe(url: str, addresses: set[str], stop: threading.Event, pauses_s: Sequence[float]) -> None:
    for pause in (*pauses_s, None):
        try:
            missing = sorted(addresses - _accounts_of(url))
            if missing:
                raise KeystoreError(
                    f"The following addresses are not available in the web3signer: {', '.join(missing)}"
                )
            return
        except KeystoreError:
            if pause is None or stop.wait(pause):
                raise


def _accounts_of(url: str) -> set[str]:
    """Lower-case addresses.  No error repeats more of the URL than where it leads to."""
    shown = FileOrUrl().show(url)
    request = urllib.request.Request(url, data=_QUESTION, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_REQUEST_TIME_S) as answer:
            text = answer.read(_ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        error.close()
        raise KeystoreError(f"Web3Signer validation failed: HTTP status {error.code} from {shown}") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise KeystoreError(
            f"Unable to connect to web3signer at {shown}. Please ensure it is running and accessible."
        ) from None
    try:
        return {address.lower() for address in orjson.loads(text)["result"]}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise KeystoreError("Invalid response from Web3Signer: expected array of accounts") from None
