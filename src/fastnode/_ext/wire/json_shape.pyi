"""Shape of a JSON text, before anything is built from it, and the texts of the ids in a request.

Neither judges whether a text is JSON: that is the parser's.
"""

def measure(text: bytes, *, depth_max: int, containers_max: int, values_max: int) -> tuple[int, int, int]:
    """Levels of containers inside each other, containers, and values at most, in one pass without the interpreter.

    A *container* is an array or an object; values are counted by the commas between them.  The count ends with the
    first maximum that is exceeded, so that nothing is read in vain: what is returned is above it then.
    """

def find_ids(text: bytes) -> list[bytes]:
    """The text of the ``id`` of a call, or of each call of a batch, as it is written; ``null`` where there is none.

    ``text`` must be JSON.  Of several members ``id`` the last one counts.
    """
