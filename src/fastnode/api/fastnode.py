"""The node's own namespace: what another fastnode needs to follow this one with everything verified, and
where this one stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from fastnode import __version__
from fastnode.archiver import layout
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.kernels import encode
from fastnode.values.numbers import Integer

__all__ = ["methods"]

_CHECKPOINT: Final = Integer(name="checkpoint number", minimum=1, accepts_text=True)


def _get_genesis(context: Context) -> bytes | None:
    chain = context.view.chain
    record = chain.get(layout.KEY_CHAIN)
    return None if record is None else b'{"chain":%b,"genesis":%b}' % (record, chain.genesis_json())


def _get_l1_to_l2_messages(context: Context, checkpoint_number: int) -> bytes | None:
    chain = context.view.chain
    newest = chain.block_info(chain.tip_number)
    if newest is None or checkpoint_number > newest.checkpoint_number:
        return None
    return encode.quoted_fields(b"".join(chain.l1_to_l2_messages(checkpoint_number)))


def _status_of_stored_chain(context: Context, *, is_paused: bool) -> dict[str, Any]:
    """The sync status of a node that follows no other."""
    state = "paused" if is_paused else "serving"
    return {"state": state, "reason": None, "tip": context.view.chain.tip_number, "upstreams": []}


def methods(
    sync_status: Callable[[], dict[str, Any] | None] = lambda: None,
    is_paused: Callable[[], bool] = lambda: False,
    no_transactions: Callable[[], str | None] = lambda: None,
    *,
    is_sample: Callable[[], bool] = lambda: False,
) -> list[Method]:
    """``sync_status`` describes how the chain is followed, None when it is not; ``is_paused``: ingestion rests;
    ``no_transactions``: why no transaction is taken now, as node_isReady tells it; ``is_sample``: the chain is the one
    that comes with the package."""

    def get_sync_status(context: Context) -> bytes:
        status = sync_status() or _status_of_stored_chain(context, is_paused=is_paused())
        reason = no_transactions()
        return orjson.dumps(
            {
                **status,
                "isReady": reason is None,
                "noTransactions": reason,
                "isSampleChain": is_sample(),
                "fastnodeVersion": __version__,
            }
        )

    return [
        Method(
            name="fastnode_getGenesis",
            summary="The network and the state before block 1, as a chain file has them.",
            handler=_get_genesis,
            **common("{chain: ChainRecord, genesis: GenesisRecord}"),
        ),
        Method(
            name="fastnode_getL1ToL2Messages",
            summary="The messages from L1 that a checkpoint inserts, without padding; absent before it begins.",
            handler=_get_l1_to_l2_messages,
            **common("Fr[]", Parameter("checkpointNumber", _CHECKPOINT), may_be_absent=True),
        ),
        Method(
            name="fastnode_getSyncStatus",
            summary="Where the node stands: following, catching up, degraded and why, and each of its upstreams.",
            handler=get_sync_status,
            **common("SyncStatus"),
        ),
    ]
