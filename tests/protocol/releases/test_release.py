"""Releases as values: which there are, which one a rollup or a node version is of, and records from files."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fastnode.protocol import releases
from fastnode.protocol.releases import FIVE, FOUR


@pytest.fixture(autouse=True)
def _known_as_shipped() -> Iterator[None]:
    with patch.object(releases, "_known", (FOUR, FIVE)):
        yield


@pytest.fixture
def record() -> dict[str, Any]:
    return dict(json.loads(resources.files("fastnode").joinpath("data", "releases", "4.json").read_bytes()))


def test_the_releases_stand_in_their_order() -> None:
    assert [release.name for release in releases.known()] == ["4.x", "5.x"]


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda release: release.name)
def test_a_release_is_found_by_its_roots_and_by_each_of_its_versions(release: releases.Release) -> None:
    assert releases.of_roots(release.vk_tree_root, release.contracts_hash) is release
    assert all(releases.of_version(version) is release for version in release.versions)


def test_two_releases_are_told_apart_by_both_of_their_roots() -> None:
    assert releases.of_roots(FOUR.vk_tree_root, FIVE.contracts_hash) is None
    assert releases.of_roots(FIVE.vk_tree_root, FOUR.contracts_hash) is None


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("4.1.2", "4.x"),
        ("4.3.0-nightly.20260417", "4.x"),
        ("4.99", "4.x"),
        ("5.2.0+build.7", "5.x"),
        ("6.0.0", None),
        ("40.1", None),
        ("4", None),
        ("", None),
        ("next", None),
        ("4.1.2\r\nx-evil: 1", None),
        ("4.1.2 ", None),
        ("4.1." + "2" * 100, None),
        ("٤.1.2", None),
    ],
)
def test_a_version_belongs_to_the_release_of_its_first_number(version: str, name: str | None) -> None:
    found = releases.of_version(version)
    assert (None if found is None else found.name) == name


@pytest.mark.parametrize(
    ("version", "has_phases"),
    [("4.1.2", True), ("4.2.99-rc.1", True), ("4.3.0", False), ("4.4.0", False), ("next", False)],
)
def test_versions_of_one_release_differ_in_receipts(version: str, has_phases: bool) -> None:
    assert FOUR.has_phased_receipts(version) is has_phases


def test_a_record_that_is_known_already_changes_nothing() -> None:
    before = releases.known()
    releases.add(copy.copy(FOUR))
    assert all(new is old for new, old in zip(releases.known(), before, strict=True))


def test_a_record_of_a_file_adds_a_release_in_its_place(tmp_path: Path, record: dict[str, Any]) -> None:
    record |= {"release": "4b", "versions": ["4.9.0"], "contractsHash": "0x" + "11" * 32}
    file = tmp_path / "release.json"
    file.write_text(json.dumps(record))
    added = releases.read_file(file)
    releases.add(added)
    assert [release.name for release in releases.known()] == ["4.x", "4b", "5.x"]
    assert releases.of_roots(FOUR.vk_tree_root, b"\x11" * 32) is added
    assert added.usual_version == "4.9.0"


def test_a_later_release_of_the_same_number_has_the_versions_from_its_first_on(record: dict[str, Any]) -> None:
    record |= {"release": "4b", "versions": ["4.9.0", "4.10.0"], "contractsHash": "0x" + "11" * 32}
    releases.add(releases.Release.from_record(record))
    found = {
        version: (releases.of_version(version) or FIVE).name
        for version in ("4.0.0", "4.4.0", "4.8.9", "4.9.0", "4.9.1-rc.2", "4.11.0", "5.0.0")
    }
    assert found == {
        "4.0.0": "4.x",
        "4.4.0": "4.x",
        "4.8.9": "4.x",
        "4.9.0": "4b",
        "4.9.1-rc.2": "4b",
        "4.11.0": "4b",
        "5.0.0": "5.x",
    }


def test_a_rebuilt_release_has_the_versions_that_it_lists_and_those_after_its_first(record: dict[str, Any]) -> None:
    record |= {"release": "4.1.4", "versions": ["4.1.4", "4.1.3-rc.1"], "contractsHash": "0x" + "11" * 32}
    rebuilt = releases.Release.from_record(record)
    releases.add(rebuilt)
    found = {
        version: (releases.of_version(version) or FIVE).name
        for version in ("4.1.2", "4.1.3-rc.1", "4.1.3", "4.1.4", "4.1.10", "4.0.9", "4.2.0", "4.2.1")
    }
    assert found == {
        "4.1.2": "4.x",
        "4.1.3-rc.1": "4.1.4",
        "4.1.3": "4.1.4",
        "4.1.4": "4.1.4",
        "4.1.10": "4.1.4",
        "4.0.9": "4.x",
        "4.2.0": "4.x",
        "4.2.1": "4.1.4",
    }
    same = replace(FOUR, name="4 again", vk_tree_root=b"\x12" * 32)
    releases.add(same)
    assert releases.of_version("4.1.2") is same


def test_a_release_of_the_same_name_or_roots_is_replaced() -> None:
    renamed = replace(FOUR, versions=("4.7.0",))
    releases.add(renamed)
    assert releases.known() == (renamed, FIVE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda record: record.pop("major"), "it has no major"),
        (lambda record: record["circuits"].pop("vkTreeRoot"), "it has no vkTreeRoot"),
        (lambda record: record.update(contractsHash="0x1234"), "has 2 bytes, expected 32"),
        (lambda record: record.update(contractsHash="what"), "non-hexadecimal"),
        (lambda record: record.update(separators=7), "."),
        (lambda record: record.update(separators={"node": "x"}), "invalid literal"),
        (lambda record: record.update(phasedReceiptsBefore="four"), "'four' is no version"),
        (lambda record: record.update(versions=None), "."),
        (lambda record: record.update(versions=[]), "no versions"),
    ],
)
def test_a_wrong_record_is_refused_with_its_reason(
    tmp_path: Path, record: dict[str, Any], change: Any, complaint: str
) -> None:
    change(record)
    file = tmp_path / "release.json"
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=complaint):
        releases.read_file(file)


@pytest.mark.parametrize("text", ["", "[]", "7", "{"])
def test_a_file_without_an_object_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "release.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"."):
        releases.read_file(file)
