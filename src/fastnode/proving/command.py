"""``--prover-command``: a program that makes the proof of an epoch.

    program INPUTS PROOF

INPUTS is a JSON file with all that is known of the epoch, PROOF a path where the program leaves the proof, as the
verifier contract takes it.  Exit code 0 says that it is there.  docs/sequencer.md describes the file.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.errors import EpochNotProven
from fastnode.protocol.fields import hex_text

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.proving.epoch import EpochInputs
    from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["FORMAT_VERSION", "make_proof", "render_inputs"]

FORMAT_VERSION: Final = 1
#: Bytes of a failed program's words that are told.
_TOLD_CHARACTERS: Final = 300
_POLL_S: Final = 0.5
#: A proof is some ten kilobytes.
_PROOF_BYTES_MAX: Final = 1 << 24


def render_inputs(
    inputs: EpochInputs,
    chain: ChainView,
    facts: RollupFacts,
    prover_id: bytes,
    txs: Callable[[bytes], bytes | None],
) -> bytes:
    """The file.  ``txs`` gives a transaction as it was sent, None when it is not known here."""
    checkpoints = []
    known: dict[str, orjson.Fragment] = {}
    missing: list[str] = []
    for number, blocks in zip(range(inputs.start, inputs.end + 1), inputs.blocks, strict=True):
        stored = chain.checkpoint(number)
        assert stored is not None
        messages = chain.l1_to_l2_messages(number)
        checkpoints.append(
            {
                "number": number,
                "header": orjson.Fragment(stored.header_json),
                "archive": orjson.Fragment(stored.archive_json),
                "attestations": orjson.Fragment(stored.attestations_json),
                "l1ToL2Messages": [hex_text(message) for message in messages],
                "blocks": [block.to_json() for block in blocks],
            }
        )
        for block in blocks:
            for effect in block.body.tx_effects:
                text = txs(effect.tx_hash)
                if text is None:
                    missing.append(hex_text(effect.tx_hash))
                else:
                    known[hex_text(effect.tx_hash)] = orjson.Fragment(text)
    blob = inputs.blob
    circuits = facts.circuits
    record = {
        "version": FORMAT_VERSION,
        "chainId": facts.chain_id,
        "rollupVersion": facts.version,
        "rollupAddress": hex_text(facts.rollup),
        "vkTreeRoot": None if circuits is None else hex_text(circuits.vk_tree_root),
        "protocolContractsHash": None if circuits is None else hex_text(circuits.protocol_contracts_hash),
        "epoch": inputs.epoch,
        "startCheckpoint": inputs.start,
        "endCheckpoint": inputs.end,
        "previousArchive": hex_text(inputs.previous_archive),
        "endArchive": hex_text(inputs.end_archive),
        "outHash": hex_text(inputs.out_hash),
        "proverId": hex_text(prover_id),
        "fees": [{"recipient": hex_text(recipient), "value": str(fee)} for recipient, fee in inputs.fees],
        "blobCommitmentsHash": hex_text(blob.commitments_hash),
        "batchedBlob": {
            "z": hex_text(blob.z),
            "y": hex_text(blob.y),
            "commitment": hex_text(blob.commitment),
            "proof": hex_text(blob.proof),
        },
        "checkpoints": checkpoints,
        "txs": known,
        "missingTxs": missing,
    }
    return orjson.dumps(record)


def make_proof(command: str, inputs: bytes, *, is_stopped: Callable[[], bool], environment: Mapping[str, str]) -> bytes:
    """EpochNotProven when the program fails, or leaves no proof; it is ended when the node stops."""
    with tempfile.TemporaryDirectory(prefix="fastnode-proof-") as folder:
        source, result = Path(folder) / "epoch.json", Path(folder) / "proof"
        source.write_bytes(inputs)
        arguments = [*shlex.split(command), str(source), str(result)]
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=dict(environment),
            )
        except OSError as error:
            raise EpochNotProven(f"--prover-command cannot be run: {error.strerror}") from None
        return _proof_of(process, result, is_stopped)


def _proof_of(process: subprocess.Popen[bytes], result: Path, is_stopped: Callable[[], bool]) -> bytes:
    said = b""
    while True:
        try:
            _, said = process.communicate(timeout=_POLL_S)
            break
        except subprocess.TimeoutExpired:
            if is_stopped():
                process.kill()
                process.communicate()
                raise EpochNotProven("the node is stopping") from None
    if process.returncode:
        words = " ".join(said.decode(errors="replace").split())[-_TOLD_CHARACTERS:]
        raise EpochNotProven(f"--prover-command ended with exit code {process.returncode}: {words}")
    if not result.is_file():
        raise EpochNotProven("--prover-command ended without leaving a proof")
    proof = result.read_bytes()
    if not 0 < len(proof) <= _PROOF_BYTES_MAX:
        raise EpochNotProven(f"--prover-command left a proof of {len(proof)} bytes")
    return proof
