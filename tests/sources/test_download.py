"""Downloads from a local server that fails on purpose: retries, wrong content, archives, recorded hashes."""

import hashlib
import io
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cxc_eccv.errors import DownloadFailed, HashMismatch, MalformedSource, ServerUnreachable
from cxc_eccv.sources import connecting
from cxc_eccv.sources.download import fetch, locate

# pooch leaves the connection of a refused request to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")

BODY = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers the n-th request by the n-th step of the script, the last step ever after."""

    def do_GET(self):
        self.server.requests.append(self.path)
        script = self.server.script
        script[min(len(self.server.requests), len(script)) - 1](self)

    def answer(self, status, body, length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


def whole(body=BODY):
    return lambda handler: handler.answer(200, body)


def status(code):
    return lambda handler: handler.answer(code, b"no")


def cut_short(handler):
    handler.answer(200, BODY[: len(BODY) // 2], length=len(BODY))


def hang_up(handler):
    handler.connection.close()


class Site:
    """A server and a mirror folder whose catalog sends ``sts_val`` there."""

    def __init__(self, server, place):
        self.server = server
        self.folder = place / "data"
        self.cache = place / "cache"
        self.folder.mkdir()
        self.address = f"http://127.0.0.1:{server.server_port}"
        self.requests = server.requests
        self.target = self.cache / "cxc" / "sts_val.csv"

    def serve(self, *script, known_hash=True):
        self.server.script = list(script)
        digest = f'sha256 = "{SHA256}"\nsize = {len(BODY)}\n' if known_hash else ""
        self.catalog(f'[entries.sts_val]\nurl = "{self.address}/sts_val.csv"\n{digest}')

    def serve_archive(self, data, members):
        self.server.script = [whole(data)]
        lines = [f'[archives.z]\nurl = "{self.address}/z.zip"\npath = "archives/z.zip"']
        lines += [
            f'[entries.{name}]\ngroup = "cxc"\npath = "cxc/{name}.json"\ntitle = "{name}"\narchive = "z"\n'
            f'member = "inner/{name}.json"\nsha256 = "{hashlib.sha256(content).hexdigest()}"\nsize = {len(content)}'
            for name, content in members.items()
        ]
        self.catalog("\n".join(lines))

    def catalog(self, entries):
        (self.folder / "catalog.toml").write_text(f'edition = "official"\n{entries}', encoding="utf-8")

    def fetch(self, name="sts_val"):
        return fetch(name, self.folder, progress=False)

    def left(self):
        """Files of the cache, the locks aside."""
        files = (path for path in self.cache.rglob("*") if path.is_file() and path.suffix != ".lock")
        return sorted(path.relative_to(self.cache).as_posix() for path in files)


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in ("CXC_ECCV_DATA", "CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server = Server(("127.0.0.1", 0), Handler)
    server.requests = []
    server.script = [status(404)]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Site(server, tmp_path)
    server.shutdown()
    server.server_close()
    thread.join()


def test_file_is_downloaded_once_with_progress_on_stderr(site, capsys):
    site.serve(whole())
    assert fetch("sts_val", site.folder) == site.fetch() == locate("sts_val", site.folder) == site.target
    assert site.target.read_bytes() == BODY
    assert (len(site.requests), site.left()) == (1, ["cxc/sts_val.csv"])
    shown = capsys.readouterr()
    assert ("100%" in shown.err, shown.out) == (True, "")


@pytest.mark.parametrize("fault", [status(503), hang_up, cut_short], ids=["503", "hang up", "cut short"])
def test_passing_fault_is_retried(site, fault):
    site.serve(fault, fault, whole())
    assert site.fetch().read_bytes() == BODY
    assert len(site.requests) == 3


def test_lasting_fault_names_address_hash_and_place(site):
    site.serve(status(404))
    with pytest.raises(DownloadFailed) as caught:
        site.fetch()
    for part in ["404", f"{site.address}/sts_val.csv", SHA256, str(site.folder / "cxc/sts_val.csv"), "--data-dir"]:
        assert part in str(caught.value)
    assert (len(site.requests), site.left()) == (4, [])


NO_NETWORK = "cannot be reached (no network? `CXC_ECCV_DATA=sample` works without)."


def test_no_network_is_one_sentence(site):
    """And no request is made a second time, as nothing comes of it."""
    site.catalog('[entries.sts_val]\nurl = "https://127.0.0.1:9/sts_val.csv"')
    with pytest.raises(ServerUnreachable) as caught:
        site.fetch()
    first, second = str(caught.value).splitlines()[:2]
    assert first.endswith(f"and 127.0.0.1 {NO_NETWORK}")
    assert second == "  official address: https://127.0.0.1:9/sts_val.csv"
    assert site.left() == []


def test_silent_network_is_not_waited_for(site, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(connecting, "_connect", lambda *_: never.wait(20))
    monkeypatch.setattr(connecting, "CONNECT_SECONDS", 0.2)
    site.catalog('[entries.sts_val]\nurl = "https://data.invalid/sts_val.csv"')
    start = time.monotonic()
    with pytest.raises(ServerUnreachable, match=r"data\.invalid cannot be reached"):
        site.fetch()
    assert time.monotonic() - start < connecting.CONNECT_SECONDS + 3
    never.set()


def test_proxy_is_asked_in_place_of_the_server(site, monkeypatch):
    """Behind a proxy the names of servers may not be known."""
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{site.server.server_port}")
    connecting.refuse_unreachable("https://data.invalid/sts_val.csv")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1 cannot be reached"):
        connecting.refuse_unreachable("https://data.invalid/sts_val.csv")


def test_proxy_that_refuses_is_asked_once(site, monkeypatch):
    monkeypatch.setenv("https_proxy", site.address)
    site.catalog('[entries.sts_val]\nurl = "https://data.invalid/sts_val.csv"')
    asked = []
    monkeypatch.setattr(Handler, "do_CONNECT", lambda handler: (asked.append(1), status(403)(handler)), raising=False)
    with pytest.raises(ServerUnreachable) as caught:
        site.fetch()
    assert f"data.invalid {NO_NETWORK}" in str(caught.value)
    assert len(asked) == 1


def test_other_file_than_the_catalogs_is_refused(site):
    site.serve(whole(BODY[::-1]))
    with pytest.raises(HashMismatch, match=rf"sts_val\.csv delivered another file: .*{SHA256}"):
        site.fetch()
    assert site.left() == []


def test_unusable_cache_is_named(site, monkeypatch):
    site.serve(whole())
    monkeypatch.setenv("CXC_ECCV_CACHE", str(site.folder / "catalog.toml" / "cache"))
    with pytest.raises(DownloadFailed, match=r"the download cache .*catalog\.toml/cache is not usable"):
        site.fetch()


def test_two_who_need_a_file_download_it_once(site):
    def slow(handler):
        handler.answer(200, BODY[:1000], length=len(BODY))
        threading.Event().wait(0.2)
        handler.wfile.write(BODY[1000:])

    site.serve(slow)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(site.fetch, ["sts_val"] * 2)) == [site.target] * 2
    assert len(site.requests) == 1


def test_unpublished_hash_is_pinned_at_download(site):
    """Other content is refused from then on."""
    site.serve(whole(), known_hash=False)
    site.fetch()
    assert site.left() == ["cxc/sts_val.csv", "cxc/sts_val.csv.sha256"]
    site.target.unlink()
    site.serve(whole(BODY[::-1]), known_hash=False)
    with pytest.raises(HashMismatch, match=SHA256):
        site.fetch()
    assert site.left() == ["cxc/sts_val.csv.sha256"]


@pytest.mark.parametrize("record", [b"", b"0" * 63 + b"\n", b"\xff" * 64])
def test_damaged_record_of_a_hash_is_an_error(site, record):
    site.serve(whole(), known_hash=False)
    site.fetch()
    site.target.with_name("sts_val.csv.sha256").write_bytes(record)
    with pytest.raises(MalformedSource, match=r"sts_val\.csv\.sha256: found .* expected the sha256 of sts_val\.csv"):
        site.fetch()


def bundle(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"inner/{name}.json", data)
    return buffer.getvalue()


def test_archive_members_come_from_one_download(site):
    site.serve_archive(bundle(one=b"1", two=BODY), {"one": b"1", "two": BODY})
    assert [site.fetch(name).read_bytes() for name in ("one", "two")] == [b"1", BODY]
    assert site.left() == ["archives/z.zip", "archives/z.zip.sha256", "cxc/one.json", "cxc/two.json"]
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (bundle(two=b"22"), HashMismatch, "is too long|is truncated"),
        (bundle(one=BODY), MalformedSource, "found the members .*delete it to download it again"),
        (bundle(two=BODY)[:-30], MalformedSource, "File is not a zip file.*delete it to download it again"),
    ],
)
def test_archive_with_other_content_is_refused(site, data, error, words):
    site.serve_archive(data, {"two": BODY})
    with pytest.raises(error, match=words):
        site.fetch("two")
    assert site.left() == ["archives/z.zip", "archives/z.zip.sha256"]
