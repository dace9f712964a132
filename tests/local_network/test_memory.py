"""The memory of a local network that goes on for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastnode.testing import RunningNetwork, local_network

#: Blocks after which the write buffers of the databases have been full once, and one more round of them.
WARM_UP, FURTHER = 1_200, 1_500
STEP = 500
#: With LevelDB's buffers of a node that imports (32 MiB) it is 12 MB more after so many blocks.
GROWTH_MAX_MB = 7.0
#: Of the whole process, with the mapped files of the databases.
LIMIT_MB = 150.0


def megabytes(network: RunningNetwork, name: str) -> float:
    """A line of /proc/PID/status."""
    lines = Path(f"/proc/{network.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def mine_to(network: RunningNetwork, number: int) -> None:
    while (tip := network.block_number) < number:
        network.mine(min(STEP, number - tip))


@pytest.mark.long
def test_blocks_take_room_on_the_disk_and_not_in_memory() -> None:
    with local_network() as network:
        mine_to(network, WARM_UP)
        warm = megabytes(network, "RssAnon")
        mine_to(network, WARM_UP + FURTHER)
        assert megabytes(network, "RssAnon") - warm < GROWTH_MAX_MB
        assert megabytes(network, "VmRSS") < LIMIT_MB


@pytest.mark.long
def test_ten_thousand_blocks_take_no_more_memory_than_two_thousand() -> None:
    with local_network() as network:
        mine_to(network, 2_000)
        warm = megabytes(network, "RssAnon")
        mine_to(network, 10_000)
        end, whole = megabytes(network, "RssAnon"), megabytes(network, "VmRSS")
        print(f"{warm:.0f} MB after 2,000 blocks, {end:.0f} MB after 10,000; with mapped files {whole:.0f} MB")
        assert end - warm < GROWTH_MAX_MB
        assert whole < LIMIT_MB
