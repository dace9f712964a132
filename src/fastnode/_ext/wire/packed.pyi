"""Texts compressed once and sent in many envelopes, each as one gzip file."""

from collections.abc import Iterable

class Packed:
    """``text`` compressed, as a part of any gzip file."""

    def __init__(self, text: bytes) -> None: ...
    @property
    def blocks(self) -> bytes:
        """As :func:`deflated` gives them."""

    @property
    def length(self) -> int:
        """Bytes of the text."""

def deflated(text: bytes) -> bytes:
    """A text as blocks of DEFLATE, none of which is the last one of a stream, and which end at a whole byte."""

def join(pieces: Iterable[bytes | Packed]) -> bytes:
    """The texts one behind the other as a gzip file of one member.

    Of what is packed nothing is compressed again.  A piece of 256 bytes or more is compressed by itself, what lies
    between those as it is, or together if it is more than 512 bytes.
    """
