"""An L1 for a local network: a test chain (anvil) that has the rollup's contracts.

Messages that are sent to the Inbox come into checkpoints.  Nothing is published: what contracts and tools ask for, the
two tips and the roots of the messages to L1, is written into the storage of the contracts, as a test chain allows.

    Inbox            moves on with every checkpoint (``catchUp``, called in the rollup's name)
    Outbox           roots[epoch].root       = keccak(epoch, 0)
    Rollup           pending << 128 | proven = keccak("aztec.stf.storage")

A message goes to the bucket that the Inbox fills, that of a checkpoint ``lag`` after the next.  L1's clock is never
behind the newest block, and the chain's is never behind L1's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.errors import DecodeError, Refused, StartError, UpstreamError, UpstreamRejection
from fastnode.kernels import encode
from fastnode.local_network.kept_state import OpenMessage
from fastnode.local_network.l1_away import L1AwayError
from fastnode.log import log_facts
from fastnode.outgoing.client import ClientLimits, RpcCall
from fastnode.outgoing.network import Network
from fastnode.protocol.checkpoint import L1PublishedData
from fastnode.protocol.ethereum import keccak_256
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import (
    ADDRESS_BYTES,
    WORD_BYTES,
    Function,
    Kind,
    from_quantity,
    hex_data,
    quantity,
    words_of,
)
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, block_call, contract_call
from fastnode.sources.l1.inbox import Inbox, InboxState
from fastnode.sources.l1.terms import STATE_SLOT

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo, ChainView

__all__ = ["AttachedL1", "connect_l1", "read_tips"]

logger = logging.getLogger(__name__)

#: One answer of a test chain on this machine; while it is waited for no block is built.
REQUEST_S: Final = 5.0
_NO_ROOT: Final = bytes(WORD_BYTES)
_GAS: Final = quantity(1_000_000)
_FUNDS: Final = quantity(10**20)
_TIPS_SHIFT: Final = 128
_LAG: Final = Function("LAG()", Kind.NUMBER)
_CATCH_UP: Final = Function("catchUp(uint256)")
_SEND: Final = Function("sendL2Message((bytes32,uint256),bytes32,bytes32)")


def connect_l1(url: str, network: Network) -> L1Endpoint:
    """StartError when nothing answers there that could be an L1 for development."""
    endpoint = L1Endpoint(url, network, "L1", limits=ClientLimits(request_time_s=REQUEST_S))
    try:
        version = endpoint.call("web3_clientVersion")
    except UpstreamError as error:
        raise StartError(f"--l1-rpc-urls: L1 does not answer: {error}") from None
    if not str(version).startswith(("anvil", "HardhatNetwork")):
        raise StartError(
            f"--l1-rpc-urls: a local network needs an L1 whose storage it may write (anvil), this one is "
            f"{str(version)[:60]!r}"
        )
    return endpoint


@dataclass(slots=True)
class _Seen:
    """L1 when it was last looked at."""

    block: L1Block
    is_automining: bool
    pending: int
    proven: int
    in_progress: int


class AttachedL1:
    """Used by the thread that changes the chain.  ``fault`` may be read by any."""

    #: Interval at which L1's block number is asked for, in seconds.
    poll_s: Final = 0.05
    #: Seconds after which L1 is read although there is no new block: tests write into its storage.
    read_s: Final = 0.25

    def __init__(self, endpoint: L1Endpoint, addresses: dict[str, str], first_block: int, chain: ChainInfo) -> None:
        self._endpoint = endpoint
        self._rollup, self._inbox_address, self._outbox, self._portal = (
            encode.from_hex(addresses[name])
            for name in ("rollupAddress", "inboxAddress", "outboxAddress", "feeJuicePortalAddress")
        )
        self._first_block = first_block
        self._epoch_duration = chain.epoch_duration
        self._fee_juice = chain.release.addresses.fee_juice
        self._inbox = Inbox(self._inbox_address, first_block)
        self._lag: int | None = None
        self._seen: _Seen | None = None
        self._read_at = 0.0
        #: Roots that this process has written, by epoch.
        self._roots: dict[int, bytes] = {}
        self._written_up_to = 0
        #: Reason why L1 cannot be used; None when it can.
        self.fault: str | None = None

    def faults(self) -> dict[str, str | None]:
        """For the health of the node."""
        return {"l1": self.fault}

    # ---- looking -------------------------------------------------------------------------------

    def has_news(self) -> bool:
        """True if it is time to read L1."""
        if self._seen is None or self.fault is not None or time.monotonic() >= self._read_at + self.read_s:
            return True
        try:
            return from_quantity(self._endpoint.call("eth_blockNumber"), "eth_blockNumber") != self._seen.block.number
        except (UpstreamError, DecodeError):
            return True  # the next read raises the error

    def refresh(self) -> None:
        """Read what is new.  L1AwayError when it does not answer: the messages of a checkpoint are not known then."""
        try:
            self._refresh()
        except (UpstreamError, DecodeError) as error:
            self._set_fault(f"L1 does not answer as it should: {error}")
            raise L1AwayError(f"L1: {error}") from None
        self._set_fault(None)

    def _refresh(self) -> None:
        calls: list[RpcCall] = [
            block_call("latest"),
            ("anvil_getAutomine", []),
            ("eth_getStorageAt", [hex_data(self._rollup), quantity(STATE_SLOT), "latest"]),
            contract_call(self._inbox_address, contracts.INBOX_STATE),
        ]
        if self._lag is None:
            calls.append(contract_call(self._inbox_address, _LAG))
        block, automine, tips, state, *lag = self._endpoint.results(calls)
        if lag:
            self._lag = int(_LAG.decode(lag[0])[0])
        inbox = InboxState(*contracts.INBOX_STATE.decode(state))
        newest = L1Block.from_json(block)
        self._inbox.refresh(self._endpoint, newest, inbox)
        pending, proven = read_tips(tips)
        self._seen = _Seen(newest, bool(automine), pending, proven, inbox.in_progress)
        self._read_at = time.monotonic()

    def _set_fault(self, fault: str | None) -> None:
        if fault is not None and self.fault is None:
            logger.warning("L1", extra=log_facts(reason=fault))
        self.fault = fault

    @property
    def timestamp(self) -> int:
        """Timestamp of L1's newest block; 0 before the first read."""
        return 0 if self._seen is None else self._seen.block.timestamp

    @property
    def proven_there(self) -> int:
        """The newest proven checkpoint by the rollup's storage: tests move it."""
        return 0 if self._seen is None else self._seen.proven

    def messages_of(self, checkpoint: int) -> Sequence[bytes]:
        """The messages of a checkpoint that is built now.  L1AwayError when it may get more."""
        messages = self._inbox.messages_of(checkpoint)
        if messages is None:
            raise L1AwayError(f"The Inbox on L1 still fills checkpoint {checkpoint}")
        return messages

    @property
    def newest_checkpoint_with_messages(self) -> int:
        """0 when there are none."""
        return self._inbox.newest_checkpoint

    def published_at(self, timestamp: int) -> L1PublishedData:
        """The L1 block that a block is reported as published in: the newest one, as nothing is published."""
        assert self._seen is not None
        return L1PublishedData(self._seen.block.number, timestamp, self._seen.block.hash)

    # ---- writing -------------------------------------------------------------------------------

    def publish(self, chain: ChainView) -> None:
        """Write the state of the chain into the contracts.  A failure becomes :attr:`fault` until a call succeeds."""
        try:
            if self._seen is None:
                self._refresh()
            self._publish(chain)
        except (UpstreamError, DecodeError) as error:
            self._set_fault(f"what is on L1 is older than the chain: {error}")
            self._written_up_to = 0

    def _publish(self, chain: ChainView) -> None:
        seen, lag = self._seen, self._lag
        assert seen is not None
        assert lag is not None
        pending, proven = chain.tips.checkpointed.checkpoint.number, chain.tips.proven.checkpoint.number
        info = chain.block_info(chain.tip_number)
        assert info is not None
        calls = self._root_calls(chain, proven)
        if (pending, proven) != (seen.pending, seen.proven):
            word = (pending << _TIPS_SHIFT | proven).to_bytes(WORD_BYTES, "big")
            calls.append(("anvil_setStorageAt", [hex_data(self._rollup), _slot(STATE_SLOT), hex_data(word)]))
        if info.timestamp > seen.block.timestamp:
            calls.append(("evm_setNextBlockTimestamp", [info.timestamp]))
        if seen.in_progress < pending + 1 + lag:
            self._transact(self._rollup, _CATCH_UP.encode(pending), calls)
        elif calls:
            self._endpoint.results(calls)
            self._endpoint.results([("evm_mine", [])])
        else:
            return
        self._refresh()
        self._written_up_to = proven

    def _root_calls(self, chain: ChainView, proven: int) -> list[RpcCall]:
        """Roots of the epochs whose newest proven checkpoint is new; those that no checkpoint has any more go."""
        wanted: dict[int, bytes] = {}
        if proven < self._written_up_to:
            self._written_up_to = max(0, proven - 1)
            newest = self._epoch_and_root(chain, proven)[0] if proven else -1
            wanted = {epoch: _NO_ROOT for epoch in self._roots if epoch > newest}
        wanted |= dict(self._epoch_and_root(chain, number) for number in range(self._written_up_to + 1, proven + 1))
        changed = {epoch: root for epoch, root in wanted.items() if self._roots.get(epoch, _NO_ROOT) != root}
        self._roots |= changed
        return [
            ("anvil_setStorageAt", [hex_data(self._outbox), _slot(_root_slot(epoch)), hex_data(root)])
            for epoch, root in changed.items()
        ]

    def _epoch_and_root(self, chain: ChainView, checkpoint_number: int) -> tuple[int, bytes]:
        """The epoch of a checkpoint, and the root of the messages to L1 of that epoch up to it."""
        checkpoint = chain.checkpoint(checkpoint_number)
        assert checkpoint is not None
        header = orjson.loads(checkpoint.header_json)
        return int(header["slotNumber"]) // self._epoch_duration, encode.from_hex(header["epochOutHash"])

    def _transact(self, sender: bytes, data: str, before: Sequence[RpcCall] = ()) -> str:
        """Have the Inbox called by an account whose key is not known, in a block of its own; the transaction's hash.

        The calls of one batch may be answered in any order, so what depends on another is asked after it.
        """
        account = hex_data(sender)
        is_automining = self._seen is None or self._seen.is_automining
        calls: list[RpcCall] = [
            *before,
            ("anvil_impersonateAccount", [account]),
            ("anvil_setBalance", [account, _FUNDS]),
            ("evm_setAutomine", [False]),
        ]
        self._endpoint.results(calls)
        try:
            call = {"from": account, "to": hex_data(self._inbox_address), "data": data, "gas": _GAS}
            (sent,) = self._endpoint.results([("eth_sendTransaction", [call])])
            self._endpoint.results([("evm_mine", [])])
        finally:
            if is_automining:
                self._endpoint.results([("evm_setAutomine", [True])])
        return str(sent)

    # ---- messages ------------------------------------------------------------------------------

    def send(self, message: OpenMessage, version: int) -> tuple[bytes, int, int]:
        """Have a message sent to the Inbox in its sender's name; its hash, index and checkpoint.

        The fee juice contract's own are sent by its portal.  Refused with L1's reason.
        """
        sender = self._portal if message.sender == self._fee_juice[-ADDRESS_BYTES:] else message.sender
        data = _SEND.encode(message.recipient, version, message.content, message.secret_hash)
        try:
            sent = self._transact(sender, data)
            receipt = self._endpoint.call("eth_getTransactionReceipt", sent)
            logs = [log for log in receipt["logs"] if log["topics"][0] == contracts.MESSAGE_SENT.topic]
            if not logs:
                raise Refused("The Inbox on L1 refuses the message")
            checkpoint, message_hash, index, _ = contracts.MESSAGE_SENT.decode(logs[0])
        except UpstreamRejection as error:
            raise Refused(f"L1 refuses the message: {error.message}") from None
        except (UpstreamError, DecodeError, KeyError, TypeError) as error:
            raise Refused(f"L1: {error}") from None
        return message_hash, index, checkpoint

    # ---- back ----------------------------------------------------------------------------------

    def snapshot(self) -> str | None:
        """L1's own snapshot; None when it has none to give."""
        try:
            return str(self._endpoint.call("evm_snapshot"))
        except UpstreamError as error:
            self._set_fault(f"L1 takes no snapshot: {error}")
            return None

    def revert(self, snapshot: str | None) -> None:
        """Return to it.  An L1 that has forgotten it stays as it is."""
        try:
            is_done = snapshot is not None and self._endpoint.call("evm_revert", snapshot)
            self._inbox = Inbox(self._inbox_address, self._first_block)
            self._seen = None
            self._written_up_to = 0
            self._roots.clear()
            self._refresh()
        except UpstreamError as error:
            self._set_fault(f"L1 does not return to its snapshot: {error}")
            return
        if not is_done:
            logger.warning("L1 does not know the snapshot any more: it stays as it is")


def read_tips(word: object) -> tuple[int, int]:
    """The newest checkpoint and the newest proven one, from the rollup's storage; DecodeError."""
    (tips,) = words_of(word, "tips")
    pending, proven = divmod(int.from_bytes(tips, "big"), 1 << _TIPS_SHIFT)
    return pending, proven


def _root_slot(epoch: int) -> int:
    return int.from_bytes(keccak_256(epoch.to_bytes(32, "big") + bytes(32)), "big")


def _slot(number: int) -> str:
    return hex_data(number.to_bytes(32, "big"))
