"""JSON that is stored in fewer bytes, and read as the very same text.

Most of what a chain says in JSON is field elements and names of members.  An element takes as many bytes as its number,
a known word one.  Any text can be packed; the readable form, with the layout, is ``fastnode/_twins/stored_text.py``.
"""

#: First byte of what is packed.
MARK: bytes

#: Words that take a byte; part of the layout of databases: nothing may be changed but added at the end.
WORDS: tuple[bytes, ...]

def pack(text: bytes) -> bytes:
    """What to store of a text: packed, or itself if that is shorter.  ValueError for 4 GiB and more."""

def unpack(stored: bytes) -> bytes:
    """The text of what is stored, packed or not.  ValueError for what was not packed here."""
