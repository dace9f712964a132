"""What connections have used of the event loop, counted where the fast path can count it.

The readable form is ``fastnode/_twins/loop_time.py``; :mod:`fastnode.http.turns` decides from these numbers.
"""

class Share:
    """What one party has used, in nanoseconds."""

    #: In all; more than that after it has rested while others worked.
    used_ns: int
    #: In one turn, lately: the newest counts a quarter, those before it three quarters.
    turn_ns: int

    def charge(self, elapsed_ns: int) -> None:
        """Note a turn."""

class LoopTime:
    """The time of one event loop.

    A *slice* is what one party may use at a stretch; a *round* what all together may use before the loop looks for new
    data.  ValueError unless ``0 < slice_ns <= round_ns``.
    """

    def __init__(self, slice_ns: int, round_ns: int) -> None: ...
    @property
    def slice_ns(self) -> int: ...
    @property
    def round_ns(self) -> int: ...
    #: Used in this round so far.
    spent_ns: int
    #: Whether what comes now has to wait for its turn.
    is_crowded: bool

    def charge(self, share: Share, elapsed_ns: int) -> None:
        """Note what a party has used; the loop is crowded when the round is over."""

    def look(self, moment: float) -> None:
        """``moment`` is the loop's own time, which stands still until it looks for new data: another one than before
        begins a round."""
