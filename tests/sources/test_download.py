"""Downloads against a local server that fails on purpose: faults, resuming, two processes, archives, pins."""

import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from cxc_eccv.errors import DownloadFailed, HashMismatch, MalformedSource
from cxc_eccv.sources.download import download as download_module
from cxc_eccv.sources.download import download as transfer
from cxc_eccv.sources.download import fetch, locate

BODY = bytes(range(256)) * 4096
HALF = len(BODY) // 2
SHA256 = hashlib.sha256(BODY).hexdigest()
ROOT = Path(__file__).parents[2]


class Handler(BaseHTTPRequestHandler):
    """Answers the n-th request by the n-th step of the script, the last step ever after."""

    def do_GET(self):
        self.server.requests.append(self.headers.get("Range", ""))
        self.server.encodings.add(self.headers.get("Accept-Encoding", ""))
        script = self.server.script
        script[min(len(self.server.requests), len(script)) - 1](self)

    def answer(self, status, body, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


def whole(body=BODY):
    return lambda handler: handler.answer(200, body)


def ranged(body=BODY):
    def step(handler):
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        handler.answer(206, body[start:], Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}")

    return step


def status(code, **headers):
    return lambda handler: handler.answer(code, b"no", **headers)


def cut_short(handler):
    handler.answer(200, BODY[:HALF], length=len(BODY))


def hang_up(handler):
    handler.connection.close()


class Site:
    """A server and a mirror folder whose catalog sends ``sts_val`` there."""

    def __init__(self, server, place):
        self.server, self.folder, self.cache = server, place / "data", place / "cache"
        self.folder.mkdir()
        self.address, self.requests = f"http://127.0.0.1:{server.server_port}", server.requests
        self.target, self.part = (self.cache / "cxc" / name for name in ("sts_val.csv", "sts_val.csv.part"))
        self.pauses = []

    def serve(self, *script, known_hash=True):
        self.server.script = list(script)
        digest = f'sha256 = "{SHA256}"\nsize = {len(BODY)}\n' if known_hash else ""
        self.catalog(f'[entries.sts_val]\nurl = "{self.address}/sts_val.csv"\n{digest}')

    def catalog(self, entries):
        (self.folder / "catalog.toml").write_text(f'edition = "official"\n{entries}', encoding="utf-8")

    def fetch(self, name="sts_val"):
        return fetch(name, self.folder, progress=False)

    def put_part(self, data):
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(data)

    def left(self):
        """Files of the cache, the locks aside."""
        files = (path for path in self.cache.rglob("*") if path.is_file() and ".locks" not in path.parts)
        return sorted(path.relative_to(self.cache).as_posix() for path in files)


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in ("CXC_ECCV_DATA", "CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    server.requests, server.encodings, server.script = [], set(), [status(404)]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site = Site(server, tmp_path)
    monkeypatch.setattr(transfer.time, "sleep", site.pauses.append)
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_is_downloaded_once_and_verified_with_progress_on_standard_error(site, capsys):
    site.serve(whole())
    assert fetch("sts_val", site.folder) == site.fetch() == locate("sts_val", site.folder) == site.target
    assert site.target.read_bytes() == BODY
    assert site.requests == [""]
    assert site.left() == ["cxc/sts_val.csv"]
    shown = capsys.readouterr()
    assert ("100%" in shown.err, shown.out) == (True, "")


@pytest.mark.parametrize("known_hash", [True, False])
def test_a_file_that_another_process_brought_meanwhile_is_verified(site, known_hash, monkeypatch):
    """Between the look for the file and the lock somebody else puts one there."""
    site.serve(status(404), known_hash=known_hash)
    enter = download_module.FileLock.__enter__

    def entered(lock):
        site.target.write_bytes(theirs)
        return enter(lock)

    monkeypatch.setattr(download_module.FileLock, "__enter__", entered)
    theirs = BODY
    assert site.fetch().read_bytes() == BODY
    site.target.unlink()
    theirs = BODY[::-1]
    with pytest.raises(HashMismatch, match=f"Delete {site.target} to download it again"):
        site.fetch()
    assert site.requests == []


REST = f"bytes={HALF}-"
STALE = BODY[:HALF].replace(b"\x00", b"\x01")
WAYS = {
    **{
        name: ([fault, fault, whole()], b"", ["", "", ""], [1, 2])
        for name, fault in {"500": status(500), "503": status(503), "429": status(429), "hang up": hang_up}.items()
    },
    "other pauses": ([status(429, Retry_After="7"), status(503, Retry_After="86400"), whole()], b"", [""] * 3, [7, 60]),
    "redirected": ([status(302, Location="/elsewhere"), whole()], b"", ["", ""], []),
    "resumed": ([cut_short, ranged()], b"", ["", REST], [1]),
    "a server without ranges": ([cut_short, whole()], b"", ["", REST], [1]),
    "unsatisfiable": ([cut_short, status(416), whole()], b"", ["", REST, ""], [1, 2]),
    "another range": ([cut_short, status(206, Content_Range="bytes 7-8/9"), whole()], b"", ["", REST, ""], [1, 2]),
    "a complete part": ([status(404)], BODY, [], []),
    "a part of another version": ([ranged(), whole()], STALE, [REST, ""], []),
    "a longer part": ([whole()], BODY + b"more", [""], []),
}
"""Answers of the server, what lies in the cache, the ranges that are asked for, and the pauses."""


@pytest.mark.parametrize(("answers", "part", "requests", "pauses"), WAYS.values(), ids=WAYS)
def test_a_file_arrives_whole(site, answers, part, requests, pauses):
    """Of a compressed transfer, offsets and lengths would be those of other bytes."""
    site.serve(*answers)
    if part:
        site.put_part(part)
    assert site.fetch().read_bytes() == BODY
    assert (site.requests, site.pauses, site.left()) == (requests, pauses, ["cxc/sts_val.csv"])
    assert site.server.encodings <= {"identity"}


def test_a_body_cut_short_starts_again_where_no_hash_would_notice_a_wrong_continuation(site):
    site.serve(cut_short, whole(), known_hash=False)
    assert site.fetch().read_bytes() == BODY
    assert site.requests == ["", ""]


def test_a_body_cut_short_is_noticed_whatever_the_http_library(site, monkeypatch):
    lenient = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(urllib3.response.HTTPResponse, "enforce_content_length", lenient, raising=False)
    site.serve(cut_short, known_hash=False)
    with pytest.raises(DownloadFailed, match="the body ended after 524,288 of 1,048,576 bytes"):
        site.fetch()
    assert site.left() == []


@pytest.mark.parametrize("code", [404, 403, 410])
def test_a_refusal_is_final(site, code):
    site.serve(status(code))
    with pytest.raises(DownloadFailed) as caught:
        site.fetch()
    for part in [str(code), f"{site.address}/sts_val.csv", SHA256, str(site.folder / "cxc/sts_val.csv"), "--data-dir"]:
        assert part in str(caught.value)
    assert (len(site.requests), site.pauses, site.left()) == (1, [], [])


def test_lasting_faults_give_up(site):
    site.serve(status(502))
    with pytest.raises(DownloadFailed, match="4 attempts to download it failed; the last error: 502 Server Error"):
        site.fetch()
    assert (len(site.requests), site.pauses) == (4, [1.0, 2.0, 4.0])


def test_another_file_than_the_catalogs_is_refused(site):
    site.serve(whole(BODY[::-1]))
    with pytest.raises(HashMismatch, match=f"expected {SHA256}. {site.address}/sts_val.csv delivered this file"):
        site.fetch()
    assert (len(site.requests), site.left()) == (1, [])


def test_a_cache_that_cannot_be_written_is_named(site, monkeypatch):
    site.serve(whole())
    blocked = site.folder / "catalog.toml" / "cache"
    monkeypatch.setenv("CXC_ECCV_CACHE", str(blocked))
    with pytest.raises(DownloadFailed, match=r"the download cache .*catalog\.toml/cache is not usable"):
        site.fetch()


@pytest.mark.parametrize("link", [os.symlink, os.link, lambda _other, path: os.mkfifo(path)])
@pytest.mark.parametrize("known_hash", [True, False])
def test_nothing_is_written_through_a_link(site, link, known_hash):
    site.serve(whole(), known_hash=known_hash)
    other = site.folder / "thesis.tex"
    other.write_text("do not touch")
    site.part.parent.mkdir(parents=True)
    link(other, site.part)
    with pytest.raises(DownloadFailed, match=r"sts_val\.csv\.part is a link or not a regular file.*delete it"):
        site.fetch()
    assert (other.read_text(), site.requests) == ("do not touch", [])
    assert os.path.lexists(site.part)


def test_the_record_of_a_hash_and_an_extracted_member_go_through_no_link(site):
    other = site.folder / "thesis.tex"
    other.write_text("do not touch")
    serve_archive(site, bundle(two=BODY), {"two": BODY})
    (site.cache / "cxc").mkdir(parents=True)
    (site.cache / "cxc" / "two.json.part").symlink_to(other)
    with pytest.raises(DownloadFailed, match=r"two\.json\.part is a link"):
        site.fetch("two")
    site.serve(whole(), known_hash=False)
    (site.cache / "cxc" / ".sts_val.csv.sha256.building").symlink_to(other)
    site.fetch()
    (site.cache / "cxc" / "sts_val.csv.sha256").unlink()
    (site.cache / "cxc" / "sts_val.csv.sha256").symlink_to(other.with_name("absent"))
    site.fetch()
    assert not other.with_name("absent").exists()
    (site.cache / ".locks" / "cxc--sts_test.csv.lock").symlink_to(other)
    site.catalog(f'[entries.sts_test]\nurl = "{site.address}/sts_test.csv"\n')
    with pytest.raises(DownloadFailed, match="is not usable"):
        site.fetch("sts_test")
    assert other.read_text() == "do not touch"


@pytest.mark.parametrize("known_hash", [True, False])
def test_a_body_larger_than_the_file_is_cut_off(site, known_hash, monkeypatch):
    monkeypatch.setattr(transfer, "LARGEST", len(BODY))
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while len(sent) < 1000:
            handler.wfile.write(BODY)
            sent.append(len(BODY))

    site.serve(endless, known_hash=known_hash)
    expected = f"{len(BODY):,}" if known_hash else f"at most {len(BODY):,}"
    with pytest.raises(DownloadFailed, match=f"the file is too large: more than .* bytes, expected {expected}"):
        site.fetch()
    assert (len(site.requests), site.pauses, site.left()) == (1, [], [])
    assert len(sent) < 1000


def test_a_body_or_a_member_may_be_as_large_as_allowed(site, monkeypatch):
    monkeypatch.setattr(transfer, "LARGEST", len(BODY))
    site.serve(whole(), known_hash=False)
    assert site.fetch().read_bytes() == BODY
    monkeypatch.setattr(transfer, "LARGEST", 1 << 20)
    serve_archive(site, bundle(two=b"0" * (3 << 20)), {"two": BODY})
    with pytest.raises(DownloadFailed, match="the file is too large"):
        site.fetch("two")
    assert "cxc/two.json.part" not in site.left()


@pytest.mark.parametrize("record", [b"", b"  \n", b"0" * 63 + b"\n", b"\xff" * 64])
def test_a_damaged_record_of_a_hash_is_an_error(site, record):
    site.serve(whole(), known_hash=False)
    site.fetch()
    site.target.with_name("sts_val.csv.sha256").write_bytes(record)
    with pytest.raises(MalformedSource, match=r"sts_val\.csv\.sha256: found .* expected the sha256 of sts_val\.csv"):
        site.fetch()


def start(site):
    call = f"fetch('sts_val', {str(site.folder)!r}, progress=False)"
    code = f"from cxc_eccv.sources.download import fetch; print({call})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


def test_a_killed_download_leaves_only_a_part_and_is_resumed(site):
    halted = threading.Event()

    def stall(handler):
        handler.answer(200, BODY[:HALF], length=len(BODY))
        halted.wait(30)

    site.serve(stall, ranged())
    process = start(site)
    deadline = time.monotonic() + 30
    while not (site.part.is_file() and site.part.stat().st_size == HALF) and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    process.kill()
    process.communicate()
    halted.set()
    assert site.left() == ["cxc/sts_val.csv.part"]
    assert site.fetch().read_bytes() == BODY
    assert site.requests == ["", f"bytes={HALF}-"]
    assert site.left() == ["cxc/sts_val.csv"]


@pytest.mark.thorough
def test_two_processes_download_once(site):
    def slow(handler):
        handler.answer(200, BODY[:HALF], length=len(BODY))
        threading.Event().wait(1.0)
        handler.wfile.write(BODY[HALF:])

    site.serve(slow)
    processes = [start(site), start(site)]
    outputs = [process.communicate(timeout=60)[0].decode().strip() for process in processes]
    assert outputs == [str(site.target)] * 2
    assert [process.returncode for process in processes] == [0, 0]
    assert site.requests == [""]
    assert site.target.read_bytes() == BODY


def test_a_file_without_published_hash_is_pinned_when_it_arrives(site):
    site.serve(whole(), known_hash=False)
    site.fetch()
    assert site.left() == ["cxc/sts_val.csv", "cxc/sts_val.csv.sha256"]
    site.target.unlink()
    site.serve(whole(BODY[::-1]), known_hash=False)
    with pytest.raises(HashMismatch, match=f"expected {SHA256}"):
        site.fetch()
    assert site.left() == ["cxc/sts_val.csv.sha256"]


def bundle(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"inner/{name}.json", data)
    return buffer.getvalue()


def serve_archive(site, data, members, sha256=""):
    site.server.script = [whole(data)]
    lines = [f'[archives.z]\nurl = "{site.address}/z.zip"\npath = "archives/z.zip"']
    for name, content in members.items():
        digest = sha256 or hashlib.sha256(content).hexdigest()
        lines.append(
            f'[entries.{name}]\ngroup = "cxc"\npath = "cxc/{name}.json"\ntitle = "{name}"\n'
            f'archive = "z"\nmember = "inner/{name}.json"\nsha256 = "{digest}"'
        )
    site.catalog("\n".join(lines))


def test_an_archive_is_downloaded_once_for_all_its_members(site):
    members = {"one": b"[1]", "two": BODY}
    serve_archive(site, bundle(**members), members)
    assert [site.fetch(name).read_bytes() for name in members] == [b"[1]", BODY]
    assert site.requests == [""]
    assert site.left() == ["archives/z.zip", "archives/z.zip.sha256", "cxc/one.json", "cxc/two.json"]


def test_an_archive_without_the_member_or_with_another_is_refused(site):
    serve_archive(site, bundle(one=b"[1]"), {"two": b"[2]"})
    with pytest.raises(MalformedSource, match=r"z\.zip: found members inner/one\.json, expected a member 'inner/two"):
        site.fetch("two")
    assert site.left() == ["archives/z.zip", "archives/z.zip.sha256"]
    serve_archive(site, bundle(one=b"[1]"), {"one": b"[1]"}, sha256="0" * 64)
    with pytest.raises(HashMismatch, match=r"It is the member 'inner/one\.json' of .*z\.zip"):
        site.fetch("one")
    assert site.left() == ["archives/z.zip", "archives/z.zip.sha256"]


def changed(data, place, offset, value):
    start = data.index(place) + offset
    return data[:start] + value + data[start + len(value) :]


def other_compression(number):
    """The archive, said to be compressed otherwise in both of its headers."""
    method = number.to_bytes(2, "little")
    return lambda data: changed(changed(data, b"PK\x01\x02", 10, method), b"PK\x03\x04", 8, method)


def locked(data):
    return changed(changed(data, b"PK\x01\x02", 8, b"\1"), b"PK\x03\x04", 6, b"\1")


def flipped(data):
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"<html>try later</html>",
        lambda data: data[:200] + data[201:],
        flipped,
        other_compression(14),
        other_compression(99),
        locked,
    ],
    ids=["page", "cut", "flipped", "lzma", "unknown", "locked"],
)
def test_a_damaged_archive_is_deleted(site, damage):
    serve_archive(site, damage(bundle(two=os.urandom(1000))), {"two": BODY})
    with pytest.raises(DownloadFailed, match="the downloaded archive was damaged"):
        site.fetch("two")
    assert site.left() == []
