"""RELEASING.md from its first command to its last, on the real data and a Hub of this machine, by two accounts."""

import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import huggingface_hub
import pytest
import yaml
from commands import run_lines
from hub_endpoints import READER, WRITER
from pages import ROOT, blocks_of

from cxc_eccv.builders.folder_writing import TOOLS_MISSING

PAGE = ROOT / "RELEASING.md"
TEXT = PAGE.read_text(encoding="utf-8")
BOARD = "YOUR_NAME/cxc_eccv"
OPEN_MODEL = "openai/clip-vit-base-patch32"
MODEL = "YOUR_NAME/clip"
TASK = "eccv_caption_i2t_map_at_r"
RESULTS = ".eval_results/cxc_eccv.yaml"
WRONG = "When a submission is wrong"
ON_THE_HUB = {"push", "submit", "leaderboard"}

LATER = """
from unittest.mock import patch
from cxc_eccv.hub.checks import checked_report
with patch("cxc_eccv.version.__version__", "0.1.1"):
    told = len(checked_report(given).scores)
"""
"""What a new version does that sets the addresses and changes no number."""


def section_of(block):
    """The heading that a block of the page stands below."""
    headings = [line for line in TEXT.splitlines()[: block.line] if line.startswith("## ")]
    return headings[-1].removeprefix("## ")


def assert_prints(printed, shown):
    """All that the page shows is printed, in its order; only a line of three dots stands for other lines."""
    pattern = r"\s+".join("(?:.*)" if line.strip() == "..." else escape_words(line) for line in shown.splitlines())
    pattern = pattern.replace(r"(?:.*)\s+", r"(?:.*\s)?").replace(r"\s+(?:.*)", r"(?:\s.*)?")
    assert re.fullmatch(rf"\s*{pattern}\s*", printed, re.DOTALL), f"{shown}\n--- was not printed, but\n{printed}"


def escape_words(line):
    return r"\s+".join(re.escape(word) for word in line.split())


class Walk:
    """Runs the page's commands: those of the Hub as an account, all others in this process."""

    def __init__(self, hub, client):
        self.hub = hub
        self.client = client
        self.token = WRITER
        self.printed = ""

    def run(self, block):
        lines = block.text.replace("\\\n", " ").splitlines()
        outputs = [self.run_line(shlex.split(line, comments=True), line) for line in lines]
        self.printed = "".join(outputs).replace(self.hub.url, "https://huggingface.co")

    def run_line(self, words, line):
        if words[0] == "cxc-eccv" and words[1] in ON_THE_HUB:
            return self.command(*words[1:])
        return run_lines(line, None)

    def command(self, *words):
        """The vectors are random, which the report doubts, so that ``submit`` asks: the answer is yes."""
        settings = {name: value for name, value in os.environ.items() if name.startswith("CXC_ECCV")}
        options = {"folder": Path.cwd(), "settings": settings, "token": self.token, "typed": "y\n"}
        return self.client.command(*words, **options).out

    def enter(self, section):
        """What others do before a section begins."""
        store = self.hub.store
        if section.startswith("5. "):
            store.create("model", OPEN_MODEL, {"README.md": b"# CLIP\n"})
        if section == WRONG:
            model = store.create("model", MODEL, {"README.md": b"# CLIP\n"})
            row = {"dataset": {"id": BOARD, "task_id": TASK}, "value": 42.4}
            store.propose(model, {".eval_results/by_hand.yaml": yaml.safe_dump([row]).encode()})
            self.token = READER
            Path("wrong.json").write_text(json.dumps(change_value(json.loads(Path("clip/report.json").read_text()))))
            assert "opened pull request" in self.command("submit", "wrong.json", "--model", MODEL, "--yes")


def change_value(report):
    """Another value of the first task of the board than the right one."""
    for result in report["results"]:
        if (result["task"], result["direction"], result["metric"]) == ("eccv_caption", "i2t", "map_at_r"):
            result.update(value=0.75, low=0.75, high=0.75)
    report["scores"]["eccv_caption/i2t/map_at_r"] = 0.75
    return report


def read_values(files):
    return {row["dataset"]["task_id"]: row["value"] for row in yaml.safe_load(files[RESULTS])}


@pytest.mark.slow
def test_page_leads_to_running_board(official_workplace, hub, client):
    walk = Walk(hub, client)
    section = ""
    before = None
    n_compared = 0
    for block in blocks_of(PAGE):
        if section_of(block) != section:
            section = section_of(block)
            walk.enter(section)
        if block.language == "sh":
            walk.run(block)
        elif block.language == "toml":
            client.set_addresses(tomllib.loads(block.text)["project"]["urls"])
        elif block.language == "text" and before is not None and before.language == "sh":
            assert_prints(walk.printed, block.text)
            n_compared += 1
        before = block
    assert n_compared == 9

    right = json.loads(Path("clip/report.json").read_text())["scores"]
    board = hub.store.repositories["dataset", BOARD]
    model = hub.store.repositories["model", MODEL]
    opened = hub.store.repositories["model", OPEN_MODEL]
    assert read_values(model.files("refs/pr/2"))[TASK] == right["eccv_caption/i2t/map_at_r"]
    declared = yaml.safe_load(board.files()["eval.yaml"])
    assert read_values(opened.files("refs/pr/1")).keys() == {task["id"] for task in declared["tasks"]}
    assert [one.author for one in [*opened.pull_requests, *model.pull_requests]] == ["writer", "somebody", "reader"]
    assert f"declares {len(declared['tasks'])} tasks" in TEXT
    assert declared["tasks"][0]["id"] == TASK
    assert {task["split"] for task in declared["tasks"]} == {"test"}
    assert client.code(LATER, str(Path("clip/report.json").resolve())).told == len(right)

    # The answers of the Hub's staff that the page foresees.
    framework = declared.pop("evaluation_framework")
    assert f'name: "{framework}"' in TEXT
    hub.store.write(board, {"eval.yaml": yaml.safe_dump(declared, sort_keys=False).encode()})
    assert "has these results already" in " ".join(walk.command("submit", "clip", "--model", MODEL).split())
    hub.store.close(model, 1)
    shown = walk.command("leaderboard")
    assert "42.4," not in shown
    assert f"{MODEL} (pull request 2)" in shown


@pytest.mark.parametrize("shown", ["a\nb c\n...\ng\n", "...\ng\n", "a b\n...\n", "...\ne f\n...\n", "a b c d e f g\n"])
def test_shown_part_of_output_is_found(shown):
    assert_prints("a b\nc d\n  e f\ng\n", shown)


@pytest.mark.parametrize(
    "shown", ["a\n", "b\n...\n", "...\nf\n", "...\ng\n...\na\n...\n", "a\n...\nx\n...\n", "...\nbc\n...\n"]
)
def test_output_that_is_not_printed_is_noticed(shown):
    with pytest.raises(AssertionError, match="was not printed"):
        assert_prints("a b\nc d\n  e f\ng\n", shown)


def test_page_names_reason_of_incomplete_build():
    assert TOOLS_MISSING.partition(";")[0] in " ".join(TEXT.split())


@pytest.mark.parametrize("key", ["metric_id", "higher_is_better"])
def test_client_does_not_know_newer_format(key):
    """If this fails, the client has learned it: then write the newer format, and change the page."""
    files = Path(huggingface_hub.__file__).parent.rglob("*.py")
    assert key in TEXT
    assert [file.name for file in files if key in file.read_text(encoding="utf-8")] == []
