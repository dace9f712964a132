"""The binary form of a transaction from the JSON in which the pool keeps it, without hashing anything."""

from __future__ import annotations

import orjson

from fastnode.kernels import encode

__all__ = ["tx_buffer_of_json"]


def tx_buffer_of_json(tx_json: bytes) -> bytes:
    """Bytes that ``Tx.to_buffer`` makes of the transaction that ``Tx.to_json_bytes`` has written: hash and all."""
    record = orjson.loads(tx_json)
    logs, calldata = record["contractClassLogFields"], record["publicFunctionCalldata"]
    parts = [
        encode.from_hex(record["txHash"]),
        encode.from_base64(record["data"]),
        encode.from_base64(record["chonkProof"]),
        len(logs).to_bytes(1, "big"),
    ]
    parts += [encode.field_from_text(text) for log in logs for text in log["fields"]]
    parts.append(len(calldata).to_bytes(1, "big"))
    for entry in calldata:
        parts.append(len(entry["values"]).to_bytes(4, "big"))
        parts += [encode.field_from_text(text) for text in entry["values"]]
        parts.append(encode.field_from_text(entry["hash"]))
    return b"".join(parts)
