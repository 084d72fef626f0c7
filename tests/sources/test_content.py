"""Reading through gzip, fingerprints, and what verification says."""

import gzip
import hashlib
import os
import time

import pytest

from cxc_eccv.errors import HashMismatch, MalformedSource
from cxc_eccv.sources import download
from cxc_eccv.sources.download import Expected, fingerprint, sha256_of, verify
from cxc_eccv.sources.reading import read_bytes


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:20] + b"\x00\x00" + data[22:], lambda _: b"plain"]
)
def test_a_damaged_gzip_file_is_malformed(tmp_path, damage):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 4)))
    for read in (read_bytes, sha256_of):
        with pytest.raises(MalformedSource, match=r"a\.csv\.gz: found incomplete or .*expected a complete gzip file"):
            read(path)


def test_a_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    reads = []
    blocks = download.read_blocks
    monkeypatch.setattr(download, "UNSETTLED", -1)
    monkeypatch.setattr(download, "read_blocks", lambda path: reads.append(path) or blocks(path))
    path = tmp_path / "a.csv"
    path.write_bytes(b"one")
    assert [sha256_of(path) for _ in range(3)] == [hashlib.sha256(b"one").hexdigest()] * 3
    assert len(reads) == 1
    path.write_bytes(b"three")
    assert sha256_of(path) == hashlib.sha256(b"three").hexdigest()
    assert len(reads) == 2


@pytest.mark.parametrize("unsettled", [download.UNSETTLED, -1])
def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path, monkeypatch, unsettled):
    monkeypatch.setattr(download, "UNSETTLED", unsettled)
    path = tmp_path / "a.csv"
    path.write_bytes(b"one")
    times = path.stat()
    assert sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    if unsettled < 0:
        time.sleep(0.05)  # longer than a tick of the file system's clock
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()


def test_verification_checks_the_size_before_it_hashes(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"12345")
    monkeypatch.setattr(download, "read_blocks", lambda path: pytest.fail("hashed"))
    with pytest.raises(HashMismatch, match=r"a\.csv is truncated: found 5 bytes, expected 1,000\. Do this\."):
        verify(path, Expected("0" * 64, 1000), "Do this.")
    with pytest.raises(HashMismatch, match=r"a\.csv is too long: found 5 bytes, expected 4\. Do this\."):
        verify(path, Expected("0" * 64, 4), "Do this.")
    verify(path, Expected(None), "")


def test_verification_of_a_gzipped_twin_counts_original_bytes(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"12345"))
    digest = hashlib.sha256(b"12345").hexdigest()
    assert (read_bytes(path), fingerprint(path)) == (b"12345", (digest, 5))
    verify(path, Expected(digest, 5), "")
    with pytest.raises(HashMismatch, match="truncated: found 5 bytes, expected 6"):
        verify(path, Expected(digest, 6), "")
    with pytest.raises(HashMismatch, match=f"found sha256 {digest}, expected {'0' * 64}. Do this."):
        verify(path, Expected("0" * 64, 5), "Do this.")
