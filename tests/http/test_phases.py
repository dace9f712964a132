"""Phases of a connection: every pair of phase and event is in the table or raises."""

from __future__ import annotations

from itertools import product

import pytest

from fastnode.http.phases import TRANSITIONS, Event, ImpossibleEvent, Phase, after


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)), ids=lambda value: value.name)
def test_an_event_leads_where_the_table_says_or_raises(phase: Phase, event: Event) -> None:
    if (phase, event) in TRANSITIONS:
        assert after(phase, event) is TRANSITIONS[phase, event]
    else:
        with pytest.raises(ImpossibleEvent, match=f"{phase.name} has the event {event.name}"):
            after(phase, event)


def test_every_phase_is_reached_and_a_connection_that_is_gone_stays_so() -> None:
    assert {Phase.OPEN, *TRANSITIONS.values()} == set(Phase)
    assert not [phase for phase, _ in TRANSITIONS if phase is Phase.CLOSED]


def test_a_connection_is_lost_in_every_phase_and_never_opens_again() -> None:
    assert {phase for phase, event in TRANSITIONS if event is Event.LOST} == set(Phase) - {Phase.CLOSED}
    assert Phase.OPEN not in TRANSITIONS.values()
