"""Shell lines of the documentation: run where they can be, excepted by name where they cannot."""

import contextlib
import io
import os
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from pages import ROOT

NOT_RUN = {
    "python3 -m venv": "installs",
    ".venv/bin/pip install": "installs",
    "pip install": "installs",
    "python tools/": "changes or checks the repository itself; tools/check.py runs it",
    ".venv/bin/python tools/": "changes or checks the repository itself",
    "pytest": "runs the tests",
    "mkdocs": "builds the site; test_site.py does",
    "hf auth login": "asks for a token",
}
"""Start of a command to the reason why it is not run."""

ON_THE_HUB = ("push", "submit")


def run_lines(text, hub):
    """Run every command of a shell block; gives what they print. ``hub`` makes the local Hub where one is needed."""
    lines = text.replace("\\\n", " ").splitlines()
    return "".join(_run(part, hub) for line in lines for part in _parts(line))


def _parts(line):
    """The commands of a line that are joined by ``&&``, as lists of words."""
    words, parts = shlex.split(line, comments=True), [[]]
    for word in words:
        parts.append([]) if word == "&&" else parts[-1].append(word)
    return [part for part in parts if part]


def _run(words, hub):
    environment = {}
    while "=" in words[0] and words[0].partition("=")[0].isupper():
        name, _, environment[name] = words.pop(0).partition("=")
    if any(" ".join(words).startswith(start) for start in NOT_RUN):
        return ""
    if words[0] in ("cxc-eccv", ".venv/bin/cxc-eccv"):
        return hub().command(words[1:]) if words[1] in ON_THE_HUB else _in_process(words, environment, _command_line)
    if words[0] == "python" and words[1].startswith("examples/"):
        return _in_process(words[1:], environment, lambda: runpy.run_path(words[1], run_name="__main__"))
    raise AssertionError(f"no test knows how to run {' '.join(words)!r}")


def _command_line():
    from cxc_eccv.cli import main

    main()


def _in_process(words, environment, work):
    """Run with these words as ``sys.argv``; gives what is printed, and fails on an exit status other than 0."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _settings(words, environment):
        try:
            work()
        except SystemExit as end:
            status = end.code or 0
    assert status == 0, f"{' '.join(words)}: exit status {status}\n{err.getvalue()}"
    return out.getvalue()


@contextlib.contextmanager
def _settings(words, environment):
    """``sys.argv``, environment and warnings of a command; all as before after it."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", words)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


class LocalHub:
    """Runs commands that talk to the Hub, in a process that knows the local one alone."""

    def __init__(self, server, token, folder):
        self.server, self.folder = server, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGG"))}
        self.environment = kept | {
            "HF_ENDPOINT": server.url,
            "HF_TOKEN": token,
            "HF_HOME": str(folder / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "PYTHONPATH": str(ROOT),
        }

    def command(self, words):
        """``cxc-eccv push`` or ``submit``; a report that is submitted is first made one of the official data."""
        if words[0] == "submit":
            self._make_official(words[1])
        code = "from cxc_eccv.cli import main; main()"
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)
        assert done.returncode == 0, f"cxc-eccv {' '.join(words)}: {done.stderr}"
        return done.stdout

    def _make_official(self, path):
        from official import add_benchmark, add_model, official_report

        Path(path).write_text(official_report())
        for kind, name, add in (("dataset", "cxc-eccv/cxc_eccv", add_benchmark), ("model", "org/name", add_model)):
            if (kind, name) not in self.server.store.repositories:
                add(self.server, name)
