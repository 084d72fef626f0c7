"""``cxc-eccv images`` against a local server: whole files, resuming, faults, refusals."""

import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources

import pytest

from cxc_eccv.sources import library as library_module
from cxc_eccv.sources import photographs
from cxc_eccv.sources.library import Library

NOBODY = "http://127.0.0.1:9"
"""An address where nobody answers."""

SAMPLE = resources.files("cxc_eccv") / "sample"

# pooch leaves the connection of a refused request to the garbage collector.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning"),
]


class Site:
    """Stands for COCO's server; ``faults`` are file names to what it does in place of sending the file."""

    def __init__(self, address):
        self.address = address
        self.requests = []
        self.faults = {}


@pytest.fixture
def site(monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix("/val2014/")
            site.requests.append(name)
            status = 200
            body = (SAMPLE / "coco" / "images" / name).read_bytes()
            length = len(body)
            if name in site.faults:
                status, body, length = site.faults[name](body)
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name in ("CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(library_module, "COCO_BUCKET", site.address)
    monkeypatch.setattr(library_module, "COCO_IMAGES", NOBODY)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def official(tmp_path, monkeypatch):
    """The sample's files as those of the official edition."""
    folder = tmp_path / "data"
    shutil.copytree(SAMPLE, folder)
    catalog = (folder / "catalog.toml").read_text()
    (folder / "catalog.toml").write_text(re.sub('edition = "sample"', 'edition = "official"', catalog))
    monkeypatch.setenv("CXC_ECCV_DATA", str(folder))
    return Library(folder)


def test_photographs_are_downloaded_whole_and_only_once(site, official, run, tmp_path):
    names = official.split().images["file_name"].to_pylist()
    n_test = len(names)
    photographs_folder = tmp_path / "new" / "val2014"
    status, out, err = run("images", "val2014", "--output", photographs_folder)
    assert (status, err) == (0, "")
    assert f"has all {n_test} photographs: {n_test} downloaded, 0 there before" in out
    assert sorted(file.name for file in photographs_folder.iterdir()) == sorted(site.requests) == sorted(names)
    for name in names:
        assert (photographs_folder / name).read_bytes() == (SAMPLE / "coco" / "images" / name).read_bytes()
    site.requests.clear()
    (photographs_folder / names[0]).unlink()
    left = photographs_folder.with_name(".val2014.building")
    left.mkdir()
    (left / names[0]).write_bytes(b"left by a killed process")
    _, out, _ = run("images", "val2014", "--output", photographs_folder)
    assert f"1 downloaded, {n_test - 1} there before" in out
    assert site.requests == names[:1]
    assert sorted(file.name for file in photographs_folder.iterdir()) == sorted(names)
    assert not left.exists()


def test_no_file_of_the_user_is_replaced(site, official, run, tmp_path):
    names = official.split().images["file_name"].to_pylist()
    folder = tmp_path / "out"
    folder.mkdir()
    own = {names[0]: b"my notes", f"{names[1]}.part": b"my part"}
    for name, content in own.items():
        (folder / name).write_bytes(content)
    status, _, err = run("images", "val2014", "--output", folder)
    assert status == 2
    assert f"{folder / names[0]} is there and no complete JPEG image; no file is replaced, so move it away" in err
    assert {name: (folder / name).read_bytes() for name in own} == own
    assert {file.name for file in folder.iterdir()} == {*names, *own}
    assert names[0] not in site.requests


def test_second_address_is_used_when_the_first_fails(site, official, run, tmp_path, monkeypatch):
    """The message says that the photographs came without encryption."""
    names = official.split().images["file_name"].to_pylist()
    monkeypatch.setattr(library_module, "COCO_BUCKET", NOBODY.replace("http", "https"))
    monkeypatch.setattr(library_module, "COCO_IMAGES", site.address)
    status, out, _ = run("images", "val2014", "--output", tmp_path / "out")
    assert status == 0
    assert f"{len(names)} came from {site.address}, without encryption" in out
    assert sorted(site.requests) == sorted(names)


def test_real_addresses_are_encrypted_first():
    assert library_module.COCO_BUCKET.startswith("https://s3.amazonaws.com/")
    assert library_module.COCO_BUCKET.endswith(library_module.COCO_IMAGES.removeprefix("http:/"))


def test_other_splits(site, official, run, tmp_path):
    for options, splits in (
        (["--split", "val"], ["validation"]),
        (["--split", "all"], ["test", "validation", "restval"]),
    ):
        names = {name for split in splits for name in official.split(split).images["file_name"].to_pylist()}
        assert run("images", "val2014", "--output", tmp_path / "out", *options)[0] == 0
        assert {file.name for file in (tmp_path / "out").iterdir()} == names
        shutil.rmtree(tmp_path / "out")


FAULTS = {
    "no-image": (lambda body: (200, b"<html>", 6), "something other than a complete JPEG image"),
    "half-an-image": (lambda body: (200, body[: len(body) // 2], len(body) // 2), "other than a complete JPEG image"),
    "not-there": (lambda body: (404, b"", 0), "the server did not deliver it: 404"),
    "busy": (lambda body: (503, b"", 0), "the server did not deliver it: 503"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_photograph_does_not_stop_the_others(site, official, run, tmp_path, fault):
    """The next run downloads it."""
    answer, message = FAULTS[fault]
    names = official.split().images["file_name"].to_pylist()
    site.faults = {names[3]: answer}
    status, _, err = run("images", "val2014", "--output", tmp_path / "out")
    assert status == 2
    assert f"out has {len(names) - 1} of the {len(names)} photographs. Run the same command again" in err
    assert message in err
    assert f"{site.address}/val2014/{names[3]}" in err
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted({*names} - {names[3]})
    site.faults = {}
    assert run("images", "val2014", "--output", tmp_path / "out")[0] == 0
    assert len(list((tmp_path / "out").iterdir())) == len(names)


def test_download_stops_when_the_server_refuses_everything(site, official, run, tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "MOST_FAILURES", 2)
    monkeypatch.setattr(photographs, "DOWNLOADS_AT_ONCE", 1)
    names = official.split().images["file_name"].to_pylist()
    site.faults = dict.fromkeys(names, lambda body: (403, b"", 0))
    assert run("images", "val2014", "--output", tmp_path / "out")[0] == 2
    assert 2 <= len(site.requests) < len(names)


def test_ctrl_c_keeps_what_arrived(site, official, run, tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "DOWNLOADS_AT_ONCE", 1)
    arrived = []

    def bring_three(file, *where, bring=photographs._bring):
        arrived.append(file)
        if len(arrived) > 3:
            raise KeyboardInterrupt
        return bring(file, *where)

    monkeypatch.setattr(photographs, "_bring", bring_three)
    status, _, err = run("images", "val2014", "--output", tmp_path / "out")
    assert status == 130
    assert "keeps the photographs that arrived. Run the same command again for the others." in err
    assert len(list((tmp_path / "out").iterdir())) == 3


REFUSED = {
    "name-misspelt": ("val2015 --output out", "did you mean 'val2014'"),
    "photographs-of-another-year": ("val2017 --output out", "did you mean 'val2014'"),
    "split-elsewhere": ("train2014 --output out --split test", "train2014 has no photograph of the split test"),
    "no-such-split": ("val2014 --output out --split tset", "did you mean 'test'"),
    "file-as-folder": ("val2014 --output notes.txt", "is a file. Name a folder"),
    "downloads-off": ("val2014 --output out", "downloads are off (CXC_ECCV_OFFLINE=1)"),
    "sample": (
        "val2014 --output out --data-dir sample",
        "the data is the edition 'sample', which has none of them",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_refusals_come_before_any_work(site, official, run, tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    if fault == "downloads-off":
        monkeypatch.setenv("CXC_ECCV_OFFLINE", "1")
    (tmp_path / "notes.txt").write_text("mine")
    words, message = REFUSED[fault]
    status, out, err = run("images", *words.split())
    assert (status, out, site.requests) == (2, "", [])
    assert message in err
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"
