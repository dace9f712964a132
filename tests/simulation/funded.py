"""The synthetic chain of worlds with wallets: its genesis has one more leaf, what their account pays with."""

from __future__ import annotations

import base64
from typing import Final

from tests.mempool.made import made_txs

from fastnode.archiver.source import GenesisRecord
from fastnode.development.synthetic_chain import SyntheticChain
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.genesis import PrefilledPublicData
from fastnode.protocol.tx_layout import USUAL
from fastnode.world_state.genesis import genesis_of

__all__ = ["FundedChain"]

_BALANCE: Final = 10**30


class FundedChain(SyntheticChain):
    """Its genesis gives the account that pays for made transactions something to pay with."""

    def _make_genesis(self) -> GenesisRecord:
        record = super()._make_genesis().to_json()
        data = base64.b64decode(next(made_txs(1))["data"])
        payer = data[USUAL.fee_payer : USUAL.fee_payer + FIELD_BYTES]
        funded = {
            "slot": hex_text(balance_slot(payer, self._release.addresses.fee_juice)),
            "value": hex_text(_BALANCE.to_bytes(FIELD_BYTES, "big")),
        }
        leaves = sorted([*record["prefilledPublicData"], funded], key=lambda leaf: str(leaf["slot"]))
        prefilled = [
            PrefilledPublicData(bytes.fromhex(leaf["slot"][2:]), bytes.fromhex(leaf["value"][2:])) for leaf in leaves
        ]
        built = genesis_of(prefilled, self._release.trees)
        return GenesisRecord.from_json(
            record
            | {
                "header": built.header.to_json(),
                "blockHash": hex_text(built.record.block_hash),
                "archiveRoot": hex_text(built.archive.root),
                "prefilledPublicData": leaves,
            }
        )
