"""Asks the remote signers of a keystore whether they hold its addresses (Web3Signer: ``eth_accounts``)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fastnode.errors import KeystoreError, UpstreamError, UpstreamUnavailable
from fastnode.keystore.private_keys import RemoteSigner
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.values.texts import FileOrUrl

__all__ = ["probe_signers"]

_LIMITS: Final = ClientLimits(request_time_s=10.0, response_bytes_max=4 << 20)
_ASKED_AT_A_TIME: Final = 8


def probe_signers(signers: Iterable[RemoteSigner], stop: threading.Event, *, pauses_s: Sequence[float]) -> None:
    """KeystoreError when a signer does not answer, again and again, or lacks an address; ``stop`` ends the waiting."""
    wanted: dict[str, set[str]] = {}
    for signer in signers:
        wanted.setdefault(signer.url, set()).add(signer.address)
    if not wanted:
        return
    with ThreadPoolExecutor(_ASKED_AT_A_TIME, thread_name_prefix="fastnode-signers") as threads, Network() as network:
        probes = [threads.submit(_probe, url, addresses, network, stop, pauses_s) for url, addresses in wanted.items()]
        for probe in probes:
            probe.result()


def _probe(url: str, addresses: set[str], network: Network, stop: threading.Event, pauses_s: Sequence[float]) -> None:
    for pause in (*pauses_s, None):
        try:
            missing = sorted(addresses - _accounts_of(url, network))
            if missing:
                raise KeystoreError(
                    f"The following addresses are not available in the web3signer: {', '.join(missing)}"
                )
            return
        except KeystoreError:
            if pause is None or stop.wait(pause):
                raise


def _accounts_of(url: str, network: Network) -> set[str]:
    """Lower-case addresses.  No error repeats more of the URL than where it leads to."""
    shown = FileOrUrl().to_text(url)
    try:
        answer = RpcClient(url, network, _LIMITS).ask([("eth_accounts", [])]).results()[0]
        return {address.lower() for address in answer}
    except UpstreamUnavailable as error:
        raise KeystoreError(f"Web3Signer at {shown} does not answer: {error}") from None
    except (UpstreamError, TypeError, AttributeError):
        raise KeystoreError(f"Invalid response from Web3Signer at {shown}: expected array of accounts") from None
