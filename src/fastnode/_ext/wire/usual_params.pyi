"""Parameters read straight from the text of a request, in the form in which clients write them."""

def read(shape: bytes, text: bytes, tip: int, items_max: int) -> tuple[int | bytes | None, ...] | None:
    """The values of the JSON array ``text``, one for each letter of ``shape``; None if one has an unusual form.

    None does not mean wrong: the parameter types of the method table read the text then, and for
    everything else they give the same value.  Those behind a ``|`` may be left out, and are None then.

        b   a block: an integer of up to 9 digits, ``"latest"`` for ``tip``, or a hash as with h
        f   a field element: ``0x`` and 1 to 64 hex digits; 32 bytes
        h   a hash or an address: ``0x`` and 64 hex digits, below the field modulus; 32 bytes
        n   an integer of up to 9 digits, not negative
        t   an array of up to ``items_max`` field elements with all their 64 digits; 32 bytes each, joined
    """
