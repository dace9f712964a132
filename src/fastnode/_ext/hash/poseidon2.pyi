"""Poseidon2 over the BN254 scalar field, width 4.

A field element is 32 bytes, big-endian, below the modulus.  A state is four of them (128 bytes).
Several of them are passed as one run of bytes without separators.  Every function refuses a run
of the wrong length and an element that is not below the modulus with :class:`ValueError`, and
releases the GIL while it computes.

``FASTNODE_KERNEL`` names the kernel to use; without it the fastest one that the processor runs is
used.  A name that does not exist or cannot run here makes the import fail with
:class:`~fastnode.errors.SettingError`.
"""

from collections.abc import Sequence

def kernel_name() -> str:
    """The kernel in use: ``portable``, ``x86-64-adx``, ``avx2-fma`` or ``avx512-ifma``."""

def available_kernels() -> tuple[str, ...]:
    """Every kernel that this processor runs, slowest first."""

def use_kernel(name: str) -> None:
    """Change to another kernel, for the whole process (tests and benchmarks); ValueError when it cannot run here."""

def permute(state: bytes) -> bytes:
    """The permutation of one state of 128 bytes."""

def hash_fields(fields: bytes) -> bytes:
    """Hash of n elements (32 * n bytes, n from 0), in fixed length mode."""

def hash_pair(left: bytes, right: bytes) -> bytes:
    """The Merkle node above two nodes: the hash of two elements."""

def hash_pairs(nodes: bytes) -> bytes:
    """One level of a Merkle tree: 64 * n bytes in, the n parents (32 * n bytes) out."""

def hash_nodes(nodes: bytes, separator: bytes) -> bytes:
    """One level of a Merkle tree, as :func:`hash_pairs`, with one element hashed before each pair; b"": with none."""

def hash_leaves_3(leaves: bytes) -> bytes:
    """Hashes of n runs of three elements (96 * n bytes in, 32 * n bytes out)."""

def hash_leaves_4(leaves: bytes) -> bytes:
    """Hashes of n runs of four elements (128 * n bytes in, 32 * n bytes out)."""

def hash_runs(runs: bytes, arity: int) -> bytes:
    """Hashes of n runs of ``arity`` elements, 1 to 2^20 (32 * arity * n bytes in, 32 * n bytes out).

    With AVX-512 IFMA two runs take 1.6 times as long as one, four to eight 2.9 times, sixteen 5.3 times; with AVX2 and
    FMA three or four take 2.5 times as long.
    """

def sponge_absorb(state: bytes, fields: bytes) -> bytes:
    """Absorb whole groups of three elements (96 * n bytes): add each to lanes 0 to 2, then permute."""

def sponges_absorb(states: bytes, fields: Sequence[bytes]) -> bytes:
    """For each of n states (128 * n bytes) absorb whole groups of three elements, as :func:`sponge_absorb` does.

    ``fields`` has one run of groups for each state.  Where the kernel has lanes, states are permuted side by side,
    whatever the lengths of their runs: eight take 2.9 times as long as one.
    """
