"""Archives of a database: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.errors import SnapshotError
from fastnode.snapshots.archive import ArchiveFacts, ArchiveWriter, archive_size, read_archive

names = st.one_of(
    st.just("CURRENT"),
    st.integers(0, 10**9).map(lambda number: f"MANIFEST-{number:06}"),
    st.tuples(st.integers(0, 10**9), st.sampled_from(["ldb", "sst", "log"])).map(
        lambda pair: f"{pair[0]:06}.{pair[1]}"
    ),
)


def facts_of(content: bytes) -> ArchiveFacts:
    return ArchiveFacts(len(content), hashlib.sha256(content).hexdigest())


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def plain(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


@settings(max_examples=60)
@given(files=st.dictionaries(names, st.binary(max_size=3000), max_size=6), chunk=st.integers(1, 5000))
def test_what_is_packed_is_unpacked(files: dict[str, bytes], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.mkdir()
        for name, content in files.items():
            (source / name).write_bytes(content)
        writer = ArchiveWriter(source)
        stream = b"".join(writer)
        assert writer.facts == facts_of(stream)
        assert archive_size(source) == len(stream) == writer.bytes_done
        read_archive((stream[at : at + chunk] for at in range(0, len(stream), chunk)), writer.facts, target)
        assert {entry.name: entry.read_bytes() for entry in target.iterdir()} == files
        with tarfile.open(fileobj=io.BytesIO(stream)) as archive:  # other programs read it too
            assert sorted(archive.getnames()) == sorted(files)


def test_an_archive_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    for name in ("000005.ldb", "CURRENT"):
        (tmp_path / name).write_text(name)
    assert b"".join(ArchiveWriter(tmp_path)) == b"".join(ArchiveWriter(tmp_path))


def link_to(target: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo("000001.ldb")
    member.type, member.linkname = kind, target
    return member, b""


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([plain("../000001.ldb")], "does not belong to a database"),
        ([plain("/000001.ldb")], "does not belong to a database"),
        ([plain("folder/000001.ldb")], "does not belong to a database"),
        ([plain("LOCK")], "does not belong to a database"),
        ([plain("CURRENT\n")], "does not belong to a database"),
        ([plain("٠٠.ldb")], "does not belong to a database"),
        ([link_to("/etc/passwd", tarfile.SYMTYPE)], "does not belong to a database"),
        ([link_to("CURRENT", tarfile.LNKTYPE)], "does not belong to a database"),
        ([link_to("", tarfile.DIRTYPE)], "does not belong to a database"),
        ([link_to("", tarfile.FIFOTYPE)], "does not belong to a database"),
        ([plain("CURRENT"), plain("CURRENT")], "twice"),
    ],
)
def test_what_is_no_file_of_a_database_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], message: str
) -> None:
    content = packed(*members)
    with pytest.raises(SnapshotError, match=message):
        read_archive([content], facts_of(content), tmp_path / "target")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["target"]


def test_an_archive_of_empty_files_is_given_up(tmp_path: Path) -> None:
    """Half a kilobyte each here, and a place on the disk there."""
    content = packed(*(plain(f"{number}.ldb", b"") for number in range(5_000)))
    with pytest.raises(SnapshotError, match="more files than a database of its size"):
        read_archive([content], facts_of(content), tmp_path / "target")
    assert len(list((tmp_path / "target").iterdir())) < 4_300


def sparse() -> bytes:
    """A file of a terabyte in two blocks, as GNU tar writes holes."""
    member = tarfile.TarInfo("000001.ldb")
    member.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"%011o\0%011o\0" % (0, 0)
    block[483:495] = tarfile.itn(1 << 40, 12, tarfile.GNU_FORMAT)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(1024)


def pax_sparse() -> bytes:
    member = tarfile.TarInfo("000001.ldb")
    member.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0", "GNU.sparse.numblocks": "1"}
    return member.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def with_size(size: int) -> bytes:
    member = tarfile.TarInfo("000001.ldb")
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(2048)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (sparse(), "does not belong to a database"),
        (pax_sparse(), "does not belong to a database"),
        (with_size(1 << 40), "has 1099511627776 bytes, which is more than it has left"),
        (with_size(2049), "has 2049 bytes, which is more than it has left"),
        (with_size(-1), "has -1 bytes"),
    ],
    ids=["sparse", "sparse pax", "a terabyte", "one byte too many", "negative"],
)
def test_sizes_that_do_not_add_up_are_refused_before_anything_is_written(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_archive([content], facts_of(content), tmp_path / "target")
    assert sum(file.stat().st_size for file in (tmp_path / "target").iterdir()) == 0


def test_nothing_beyond_the_announced_size_is_read(tmp_path: Path) -> None:
    content = packed(plain("CURRENT", b"x" * 5000))
    taken = []

    def endless():  # type: ignore[no-untyped-def]
        yield content
        while True:
            taken.append(1)
            yield b"\0" * 1000

    with pytest.raises(SnapshotError, match="it is longer than"):
        read_archive(endless(), facts_of(content), tmp_path / "target")
    assert len(taken) == 1


def test_bytes_after_the_end_of_the_archive_count(tmp_path: Path) -> None:
    content = packed(plain("CURRENT")) + b"more"
    read_archive([content], facts_of(content), tmp_path / "one")
    with pytest.raises(SnapshotError, match="SHA-256"):
        read_archive([content[:-1] + b"E"], facts_of(content), tmp_path / "two")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\0" * 2000, b"\xff" * 2000])
def test_what_is_no_archive_leaves_no_files(tmp_path: Path, content: bytes) -> None:
    try:
        read_archive([content], facts_of(content), tmp_path / "target")
    except SnapshotError as error:
        assert "not an archive" in str(error)  # noqa: PT017 - an empty archive is one
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_that_shrinks_while_it_is_packed_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "000001.ldb").write_bytes(b"x" * 1000)
    stream = iter(ArchiveWriter(tmp_path))
    next(stream)
    (tmp_path / "000001.ldb").write_bytes(b"")
    with pytest.raises(SnapshotError, match="became shorter"):
        list(stream)
