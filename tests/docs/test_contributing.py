"""The recipes of docs/contributing.md are true: one of each is added as it says, and found wherever it should show."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, ROOT, blocks_of

from cxc_eccv.studies.baselines.commands import baseline
from cxc_eccv.studies.baselines.untrained import baselines
from cxc_eccv.types import PositiveRanks

TITLE = re.compile(r'title="(?P<path>[^"]+)"')

CAPPED = '''
"""Rank, at most K."""

import numpy as np

from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.types import FloatArray, PositiveRanks


def capped_rank_at_k(ranks: PositiveRanks, k: int = 40) -> FloatArray:
    """Rank of a query's best positive, or K where that stands further down.

    Args:
        ranks: ranks of the positives of Q queries.
        k: highest value.

    Returns:
        (Q,) ranks.

    References:
        None.

    Example:
        >>> capped_rank_at_k(PositiveRanks.of([[2, 9], [1]])).tolist()
        [2.0, 1.0]
    """
    return np.minimum(ranks.best, k).astype(np.float64)


SPEC = RankMetric(
    capped_rank_at_k,
    "rank up to {k}",
    unit="rank",
    depends_on=BestRank(),
    citation="Author, venue, year",
    parameters={"k": (40,)},
    bounds=(1.0, None),
    higher_is_better=False,
)
'''
"""A metric of ranks, with a parameter."""


ADDITIONS = ROOT / "examples" / "additions"


def recipes():
    """Path to text of the files that the page writes, and of those that it names."""
    page = DOCS / "contributing.md"
    named = [(TITLE.search(block.info), block) for block in blocks_of(page)]
    files = {match["path"]: block.text for match, block in named if match and block.language != "diff"}
    for path in filter(Path.is_file, ADDITIONS.rglob("*.*")):
        assert f"`{path.relative_to(ROOT).as_posix()}`" in page.read_text(encoding="utf-8")
        files[f"cxc_eccv/{path.relative_to(ADDITIONS).as_posix()}"] = path.read_text(encoding="utf-8")
    return files


def changes():
    """Path and changed lines of every change that the page makes to a file: the lines before, and those after."""
    for block in blocks_of(DOCS / "contributing.md"):
        if block.language == "diff":
            for part in block.text.split("@@\n"):
                lines = part.splitlines()
                before, after = ([line[1:] for line in lines if line[0] in f" {sign}"] for sign in "-+")
                yield TITLE.search(block.info)["path"], before, after


def change(file, before, after):
    """Replace lines of a file that stand in it once."""
    text = "\n" + file.read_text(encoding="utf-8")
    before, after = ("\n{}\n".format("\n".join(lines)) for lines in (before, after))
    assert text.count(before) == 1, (file, before)
    file.write_text(text.replace(before, after)[1:], encoding="utf-8")


def run(copy, *arguments, python=(sys.executable,)):
    """What a Python command prints in the copy, whose package it imports; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "CXC_ECCV_DATA"}
    done = subprocess.run(
        [*python, *arguments],
        capture_output=True,
        text=True,
        cwd=copy,
        check=False,
        env=environment | {"PYTHONPATH": str(copy)},
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory, warm_python):
    """A copy of the repository to which all recipes were applied, and whose generators ran."""
    sys.path.append(str(ROOT / "tools"))
    from check_core import copy_tree

    folder = tmp_path_factory.mktemp("repository")
    copy_tree(ROOT, folder)
    files = recipes() | {"cxc_eccv/metrics/capped_rank_at_k.py": CAPPED}
    task = files["cxc_eccv/tasks/uncontested.py"]
    files["cxc_eccv/tasks/uncontested.py"] = task.replace('("coco", "cxc", "eccv")', '("coco", "same_words", "cxc")')
    for path, text in files.items():
        before = (folder / path).read_text(encoding="utf-8") if (folder / path).exists() else ""
        (folder / path).write_text(before + text, encoding="utf-8")
    for path, before, after in changes():
        change(folder / path, before, after)
    for generator in sorted((folder / "tools").glob("generate_*.py")):
        run(folder, str(generator), python=warm_python)
    return folder


@pytest.fixture(scope="module")
def found(copy, tmp_path_factory, warm_python):
    script = "tests/docs/added_declarations.py"
    printed = run(copy, script, str(tmp_path_factory.mktemp("added")), python=warm_python)
    return json.loads(printed.partition("FOUND")[2])


@pytest.mark.slow
def test_contracts_hold_with_every_recipe(copy):
    """The other tests of this file find each addition where a contract would look for it."""
    printed = run(copy, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "tests/contracts", "-m", "not gpu")
    assert " passed" in printed.splitlines()[-1]


def test_the_page_has_a_recipe_for_each_kind():
    assert {Path(path).parent.as_posix().removeprefix("cxc_eccv/") for path in recipes()} == {
        "evaluation/doubts",
        "metrics",
        "unjudged/policies",
        "tasks",
        "sources",
        "sources/collections",
        "builders/configs",
        "judgments/evidence",
        "studies/entailment/training_data/corpora",
        "studies/baselines/untrained",
    }


@pytest.mark.parametrize(("ranks", "n_positives"), [([2, 9], 2), ([2, 3], 3), ([2], 1)])
def test_recipe_finds_a_positive_in_the_top_r(ranks, n_positives):
    module = {}
    exec(recipes()["cxc_eccv/metrics/found_at_r.py"], module)
    value = module["found_at_r"](PositiveRanks.of([ranks], n_positives=[n_positives])).item()
    assert value == (ranks[0] <= n_positives)


def test_a_corpus_is_read_and_guarded(found):
    assert found["pairs"] == [480, 480, 240]  # pairs, entailed, not of test


def test_all_are_listed(found):
    for name in ("found_at_r", "capped_rank_at_k", "uncontested", "lengths", "Lengths of captions"):
        assert name in found["list"]


def test_added_metric_is_shown_in_its_unit(copy, found):
    value = found["scores"]["uncontested/t2i/capped_rank_at_40"]
    assert value > 1
    for shown in (found["console"], found["page"]):
        assert "Found@R" in shown
        assert re.search(rf"rank up to 40\W+[\d.]+\W+{value:.1f}\b", shown)
    assert f"{value:.1f}" in found["html"]
    page = (copy / "docs/metrics/all_positives.md").read_text()
    assert "## `found_at_r`" in page
    assert "**Found@R.**" in page
    assert (copy / "metrics/found_at_r/found_at_r.py").exists()


def test_doubt_is_shown_above_the_scores(found):
    assert "has queries of 60 images" in found["doubts"]["few_images"]
    for shown in (found["console"], found["page"], found["html"]):
        assert shown.index("has queries of 60 images") < shown.index("Found@R")


def test_option_changes_intervals_and_is_recorded(copy, found):
    option = found["option"]
    assert option["recorded"] == option["in the file"] == {"draws": 50}
    assert option["low"] != option["low by default"]
    assert "Bootstrap samples." in (copy / "docs/reference/cli.md").read_text()


def test_a_task_is_evaluated_shown_and_ranked(copy, found):
    assert "## `uncontested`" in (copy / "docs/tasks.md").read_text()
    assert "`uncontested/t2i/map_at_r`" in (copy / "docs/leaderboard.md").read_text()
    assert "### Uncontested" in found["page"]
    assert {"uncontested/i2t/recall_at_1", "uncontested/t2i/found_at_r"} <= set(found["scores"])


def test_added_config_has_a_card_and_a_page(copy, found):
    assert "lengths" in found["card"]
    assert (copy / "dataset_cards/lengths.md").exists()
    assert "Lengths of captions" in (copy / "docs/datasets/lengths.md").read_text()
    assert "lengths.md" in (copy / "docs/datasets/index.md").read_text()


def test_source_changes_no_dataset(found):
    assert "coco: original link" in found["rules"]
    assert not any(rule.startswith("same_words") for rule in found["rules"])
    assert found["groups"] == ["karpathy", "cxc", "eccv_caption", "entailment"]


def test_source_is_shown_where_a_task_names_it(found):
    assert found["examples"].index("same_words") == found["examples"].index("coco") + 1
    assert found["said"] > 0
    assert "same words" in found["page"]


def test_task_has_the_labels_of_its_table(found):
    before, after = found["further"]["positives"]
    assert after == before + 1
    assert "verified/t2i/recall_at_1" in found["further"]["scores"]


def test_collection_is_scored(found):
    """Its images and captions are those of the sample."""
    scores = found["further"]["scores"]
    assert scores["album/i2t/recall_at_5"] == scores["coco_5k/i2t/recall_at_5"]


def test_a_baseline_is_a_command(found):
    assert "cxc" in found["baseline"]
    assert "R@1" in found["baseline"]


def test_the_help_names_every_baseline_with_its_sentence():
    for name, one in baselines().items():
        assert f"{name}: {one.summary}." in baseline.__doc__
