"""Texts compressed once and sent in many envelopes, each as one gzip file.

The readable form of everything here is ``fastnode/_twins/packed.py``.
"""

class Packed:
    """``text`` as ``blocks`` of DEFLATE, none of which is the last one of a stream, and which end at a whole byte."""

    def __init__(self, text: bytes, blocks: bytes) -> None: ...
    def join(self, before: bytes, behind: bytes) -> bytes:
        """``before + text + behind`` as a gzip file of one member, without compressing anything.

        ``before`` and ``behind`` go as they are.  ValueError above 65,535 bytes of either.
        """

    @property
    def blocks(self) -> bytes: ...
    @property
    def length(self) -> int: ...
