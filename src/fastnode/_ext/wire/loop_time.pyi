"""Use of the event loop by connections, counted where the fast path can count it.

:mod:`fastnode.http.turns` decides from these numbers.
"""

from collections.abc import Callable

class Share:
    """Use of one party, in nanoseconds."""

    #: In all, as far as it counts (http/fair_queue.py).
    used_ns: int
    #: In one turn, lately: the newest counts a quarter, those before it three quarters; and no more than twice as much
    #: as those, since one long turn may have been held up by others.  Of a group: in one turn of any member.
    turn_ns: int
    #: Use of a group's member that had waited all the time.
    served_ns: int
    #: When it waited last: the number of a time without a break during which some waited (http/fair_queue.py).
    period: int
    #: Use of several parties together, such as the connections of one address; None: it is alone.
    group: Share | None

    def charge(self, elapsed_ns: int) -> None:
        """Note a turn, for the group too."""

    def add(self, elapsed_ns: int) -> None:
        """Note what was used beside turns: it tells nothing about how long they are."""

class LoopTime:
    """The time of one event loop.

    A *slice* is what one party may use at a stretch, and may be set anew; a *round* what all together may use before
    the loop looks for new data.  ValueError unless ``0 < slice_ns <= round_ns``.  ``on_use`` is called once in a round
    of which more than a quarter is used: :meth:`begin_round` has to follow when it is over.
    """

    def __init__(self, slice_ns: int, round_ns: int, on_use: Callable[[], None] | None = None) -> None: ...
    slice_ns: int
    @property
    def round_ns(self) -> int: ...
    #: Used in this round so far.
    spent_ns: int
    #: True if data that comes now has to wait for its turn.
    is_crowded: bool

    def charge(self, share: Share, elapsed_ns: int) -> None:
        """Note what a party has used; the loop is crowded when the round is over.

        Of more than a tenth of a millisecond the party is charged what the thread had of a processor meanwhile: what it
        waited for other threads is not the party's.  To be called by the loop's thread only.
        """

    def add(self, share: Share, elapsed_ns: int) -> None:
        """The same for what is no turn."""

    def begin_round(self) -> None:
        """The loop has looked for new data."""
