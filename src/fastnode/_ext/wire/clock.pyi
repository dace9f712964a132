"""The clock of requests: durations, slices of the event loop and what parties are charged are of this one alone."""

def now_ns() -> int:
    """A clock that only rises, in nanoseconds."""

def give(moment_ns: int) -> None:
    """Stand at a moment (ns, above 0) until another one is given; 0 lets the clock run by itself again.

    For a simulation, which has one clock for all of a node; no processor time passes in it.
    """
