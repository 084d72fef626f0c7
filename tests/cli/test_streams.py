"""Whatever becomes of a command's streams, its files are written, and it does not end without a word."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cxc_eccv.cli.app import main
from cxc_eccv.writing import resumable

pytestmark = pytest.mark.thorough

COMMAND = f"{shlex.quote(sys.executable)} -c 'from cxc_eccv.cli.app import main; main()'"
REPORT = ["examples.parquet", "per_query.parquet", "report.html", "report.json", "report.md"]


def shell(line, **environment):
    """Exit statuses of the programs of a pipe, what reached standard output, and standard error."""
    kept = {name: value for name, value in os.environ.items() if name != "CXC_ECCV_DATA"}
    done = subprocess.run(
        ["bash", "-c", f"{line}\necho statuses ${{PIPESTATUS[@]}}"],
        capture_output=True,
        env=kept | {"CXC_ECCV_OFFLINE": "1", "HF_HUB_OFFLINE": "1", **environment},
        check=True,
    )
    out = done.stdout.decode(errors="replace")
    err = done.stderr.decode(errors="replace")
    assert "Traceback" not in err + out, err
    found = re.search(r"statuses ([\d ]+)\n", out)
    return [int(status) for status in found[1].split()], out[: found.start()], err


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def status(*arguments):
    """Exit status of a command in this process, where no stream is at stake: starting one takes seconds."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.mark.parametrize(
    ("redirection", "status"), [("| true", 1), ("2>/dev/full | true", 1), (">&-", 0), ("<&- >&- 2>&-", 0)]
)
def test_evaluate_writes_its_report_with_nobody_reading(demo, tmp_path, redirection, status):
    line = f"{COMMAND} evaluate {demo / 'ridge.npz'} --data-dir sample --tasks cxc/sts --output {tmp_path / 'out'}"
    assert shell(f"{line} {redirection}")[0][0] == status
    assert names(tmp_path / "out") == REPORT


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("build --data-dir sample --configs sts --output OUT", True),
        pytest.param("baseline bow --data-dir sample --output OUT", True, marks=pytest.mark.studies),
        ("compare MODEL SECOND --name a --name b --samples 200 --output OUT", True),
        ("list --data-dir sample", False),
    ],
)
def test_no_command_needs_a_reader(demo, tmp_path, arguments, written):
    second = shutil.copytree(demo, tmp_path / "second")
    line = arguments.replace("OUT", str(tmp_path / "out")).replace("MODEL", str(demo)).replace("SECOND", str(second))
    assert shell(f"{COMMAND} {line} | true")[0] == [1, 0]
    assert (tmp_path / "out").exists() == written


def test_full_disk_at_standard_output_keeps_the_files(demo, tmp_path):
    """The command fails with status 2 after it has written the report."""
    line = f"{COMMAND} evaluate {demo / 'ridge.npz'} --data-dir sample --tasks cxc --output {tmp_path / 'out'}"
    statuses, _, err = shell(f"{line} >/dev/full")
    assert statuses == [2]
    assert err == "cxc-eccv: No space left on device\n"
    assert names(tmp_path / "out") == REPORT


@pytest.mark.parametrize(
    ("encoding", "arguments"), [("ascii", "list --data-dir sample"), ("latin-1", "evaluate --help")]
)
def test_limited_terminal_encoding_is_no_error(encoding, arguments):
    line = f"{COMMAND} {arguments}"
    environment = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert shell(f"{line} | cat", **environment)[0] == [0, 0]


def test_files_are_utf_8_whatever_the_terminal_is(demo, tmp_path):
    out = Path(shutil.copytree(demo, tmp_path / "out"))
    assert status("report", out) == 0
    before = (out / "report.html").read_bytes(), (out / "report.md").read_bytes()
    assert not before[0].isascii()
    (out / "report.html").unlink()
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert shell(f"{COMMAND} report {out} | cat", **environment)[0] == [0, 0]
    assert ((out / "report.html").read_bytes(), (out / "report.md").read_bytes()) == before


@pytest.mark.parametrize("kept", ["", "Finished parts are kept in a.npz.parts."])
def test_ctrl_c_exits_130_and_names_kept_files(kept, run, monkeypatch):
    def interrupt(*_arguments, **_options):
        with resumable(kept) if kept else contextlib.nullcontext():
            raise KeyboardInterrupt

    monkeypatch.setattr("cxc_eccv.runs.load_run", interrupt)
    status, out, err = run("evaluate", "run.npz", "--data-dir", "sample")
    assert (status, out) == (130, "")
    assert err == f"cxc-eccv: interrupted. {kept or 'Unfinished files were discarded; run the command again.'}\n"
