"""Text forms of bytes and field elements.

Everything that goes out is ``bytes`` (ASCII), ready to be spliced into an answer.  Text that comes
in may be ``str`` or ``bytes``.  A value of the wrong type raises :class:`TypeError`, anything else
that is wrong raises :class:`ValueError` whose message says what is wrong but not where: the caller
knows the name of the parameter.  The readable form is ``fastnode/_twins/encode.py``.
"""

MODULUS: int

def to_hex(data: bytes) -> bytes:
    """``0x`` and two lower-case digits per byte."""

def from_hex(text: str | bytes) -> bytes:
    """Bytes of an even number of hex digits of either case; ``0x`` in front is optional."""

def field_from_text(text: str | bytes) -> bytes:
    """A field element from ``0x`` and 1 to 64 hex digits, or from decimal digits only.

    Digits without ``0x`` are always read as decimal: ``"10"`` is ten.
    """

def field_from_int(value: int) -> bytes:
    """The 32 bytes of a number from 0 to the modulus - 1."""

def field_to_decimal(value: bytes) -> bytes:
    """Decimal digits of 32 big-endian bytes: any number below 2^256, canonical element or not."""

def quoted_fields(data: bytes) -> bytes:
    """JSON array of the ``"0x..."`` strings of n runs of 32 bytes; ``[]`` for none."""

def to_base64(data: bytes) -> bytes:
    """Standard alphabet, padded, one line."""

def to_base64_narrow(data: bytes) -> bytes:
    """The same, made without vectors of 512 bits, as on processors that have none."""

def from_base64(text: str | bytes) -> bytes:
    """Bytes of padded base64 in the standard alphabet, without blanks.

    Bits of the last digit beyond the last byte are ignored, as decoders in JavaScript do.
    """
