"""A message of a peer is worth what the published validators say: verdict and points, for each bent field."""

from __future__ import annotations

import json

import pytest
from tests.p2p.bent_messages import VERDICTS, cases, digest, key_of
from tests.p2p.judging import verdict_here

from fastnode.p2p.gossip.topics import Topic

RECORDED: dict[str, list[str]] = json.loads(VERDICTS.read_text())
CASES = list(cases())


def test_the_verdicts_are_those_of_these_messages() -> None:
    assert {key_of(case): digest(case) for case in CASES} == {key: value[0] for key, value in RECORDED.items()}


@pytest.mark.parametrize("topic", list(Topic), ids=lambda topic: topic.value)
def test_each_bent_message_is_worth_what_published_nodes_say(topic: Topic) -> None:
    different = {
        key_of(case): (here, RECORDED[key_of(case)][1])
        for case in CASES
        if case.topic is topic and (here := verdict_here(case)) != RECORDED[key_of(case)][1]
    }
    assert different == {}
