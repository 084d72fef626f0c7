"""Headless Chromium that opens a page in frames of several widths and measures it from outside."""

import html
import http.server
import json
import os
import re
import shutil
import subprocess
import threading

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
HARNESS = """<!doctype html><meta charset="utf-8"><title>harness</title><body><script>
const measure = %s;
addEventListener("load", async () => {
  const found = {};
  for (const width of %s) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `border: 0; width: ${width}px; height: 900px`;
    frame.src = "/report.html";
    await new Promise((done) => { frame.onload = done; document.body.append(frame); });
    found[width] = await measure(frame.contentWindow, frame.contentDocument);
    frame.remove();
  }
  const out = document.createElement("pre");
  out.id = "out";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>"""


@pytest.fixture(scope="session")
def chromium():
    """The browser's binary; CXC_ECCV_CHROMIUM names one that is not on the path."""
    found = os.environ.get("CXC_ECCV_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine; install one, or name it in CXC_ECCV_CHROMIUM")
    return found


@pytest.fixture
def measure(chromium, tmp_path):
    """Open a page in frames and return what a JavaScript function finds in each, the requests, and the console."""

    def run(page, function, widths=(390, 1280), dark=False):
        folder = tmp_path / "served"
        folder.mkdir(exist_ok=True)
        (folder / "report.html").write_text(page, encoding="utf-8")
        (folder / "harness.html").write_text(HARNESS % (function, json.dumps(widths)), encoding="utf-8")
        requests = []
        with Served(folder, requests) as port:
            done = _dumped(chromium, f"http://127.0.0.1:{port}/harness.html", tmp_path / "profile", dark)
        out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
        assert out, done.stderr[-2000:]
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return json.loads(html.unescape(out[1])), requests, console

    return run


def _dumped(chromium, address, profile, dark):
    scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    return subprocess.run(
        [
            chromium,
            *QUIET,
            *scheme,
            "--enable-logging=stderr",
            "--virtual-time-budget=30000",
            f"--user-data-dir={profile}",
            "--window-size=1400,1000",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


class Served:
    """A folder at a port of this machine; every path that is asked for is recorded."""

    def __init__(self, folder, requests):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *_arguments):
                requests.append(self.path)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server.server_port

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()
