"""The README from top to bottom, as one session of a shell in a fresh environment of a fresh clone."""

import os
import shlex
import subprocess
import sys

import pytest
from commands import OFFICIAL
from pages import ROOT, blocks_of
from workplace import RAW, save_models

BLOCKS = [block for block in blocks_of(ROOT / "README.md") if block.language in ("sh", "python")]
STAND_INS = {
    "python3 -m venv --upgrade-deps": "true",  # the checks, of which this test is one
    "python3 -m venv": "{line}",
    "source ": "{line}",
    "pip install": "{line}",
    "cxc-eccv images val2014 --output val2014": f"cp -r {shlex.quote(str(RAW / 'coco' / 'images'))} val2014",
    "cxc-eccv": "{line}",
}
"""Start of a line to what runs instead of it; the model's id is a folder with a small model, the data the sample."""


def stand_in(line):
    """The line, or what takes its place without the network; the sample is refused where only COCO is accepted."""
    (start,) = [start for start in STAND_INS if line.startswith(start)][:1]
    if OFFICIAL & set(shlex.split(line)):
        return f"({line} 2>&1 || test $? = 2) | tee refused.txt; grep -q \"edition 'sample'\" refused.txt"
    return STAND_INS[start].format(line=line)


def shell_session():
    """All blocks, in order; Python is typed into one interpreter after the other."""
    for block in BLOCKS:
        if block.language == "python":
            yield f"python - <<'END'\n{block.text}END"
        else:
            yield from map(stand_in, block.text.splitlines())


def test_first_command_is_one_line_to_the_page():
    first, *_, last = (block.text.splitlines() for block in BLOCKS)
    assert len(first) == len(last) == 1
    assert "pip install . && .venv/bin/cxc-eccv demo --output" in first[0]
    assert "tools/check.py" in last[0]


def test_first_python_block_gives_its_number():
    block = next(block.text for block in BLOCKS if block.language == "python")
    names = {}
    exec(block, names)
    statements = [line for line in block.splitlines() if " = " in line]
    assert len(statements) == 2
    expression, said = block.splitlines()[-1].split("  # ")
    assert eval(expression, names) == float(said)


def test_three_commands_install_fetch_and_score():
    lines = next(block.text.splitlines() for block in BLOCKS if "cxc-eccv images" in block.text)
    assert [line.split()[:2] for line in lines] == [
        ["pip", "install"],
        ["cxc-eccv", "images"],
        ["cxc-eccv", "evaluate"],
    ]


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_readme_runs_in_a_fresh_environment(tmp_path):
    """Installs from PyPI; photographs, model and labels come from this machine."""
    sys.path.append(str(ROOT / "tools"))
    from check_core import copy_tree

    clone = tmp_path / "cxc_eccv"
    copy_tree(ROOT, clone)
    save_models(clone)
    home = {"HOME": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CXC_ECCV_DATA": "sample"}
    settings = {"HF_HUB_OFFLINE": "1", "CXC_ECCV_OFFLINE": "1", "COLUMNS": "80"}
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PIP_CACHE_DIR", "PIP_INDEX_URL")}
    session = "set -e\n" + "\n".join(shell_session())
    done = subprocess.run(
        ["bash", "-c", session], cwd=clone, env=kept | home | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "No module named" not in done.stderr
    for page in ("demo/report.html", "clip/report.html", "from_file/report.html", "cxc_eccv_data/README.md"):
        assert (clone / page).is_file(), page
