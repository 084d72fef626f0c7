"""The scripts of ``examples`` run offline, and print what they are for."""

import ast
import contextlib
import io
import json
import re

import numpy as np
import pytest
from commands import run_example, run_lines
from pages import DOCS, PAGES, ROOT, blocks_of

TEXT = "".join(path.read_text(encoding="utf-8") for path in PAGES)
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
WITH_MODELS = ("judge_with_a_vlm.py", "judge_with_an_api.py", "train_pytorch.py")
"""Run in tests/studies/entailment/test_judge_examples.py, the last one as a block of docs/training.md."""

ON_RAY = ("encode_on_ray.py", "rank_on_ray.py")
"""Run in test_ray_examples.py, where Ray is installed."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_script_runs_and_is_cited(name):
    assert name in (*WITH_MODELS, *ON_RAY) or run_example(f"examples/{name}")
    assert f"python examples/{name}" in TEXT
    assert f"python examples/{name}" in ast.get_docstring(ast.parse((ROOT / "examples" / name).read_text()))


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_whole_and_holds_no_outputs(path):
    assert f"examples/{path.name}" in TEXT
    for cell in code_of(path):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))


def code_of(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def run_cell(source, names):
    """What a cell prints, and the value of its last expression, which a notebook shows."""
    lines = source.splitlines()
    out = io.StringIO()
    value = None
    body = ast.parse("\n".join(line for line in lines if not line.startswith(("!", "%")))).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return out.getvalue() + run_lines("\n".join(line[1:] for line in lines if line.startswith("!")), None), value


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quick_tour_notebook_reaches_a_report(workplace):
    names = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_of(ROOT / "examples" / "quick_tour.ipynb")]
    printed = "".join(text for text, _ in shown)
    seen = [value for _, value in shown if value is not None]
    assert "Dataset" in repr(seen[0])
    assert seen[1]._repr_png_()
    assert seen[2][:2] == (["i2t", "t2i", "t2t", "i2i"], "i2t")
    assert seen[2][2] > 5
    assert "eccv: verified positive | " in printed
    assert re.search(r"^eccv_caption/i2t/map_at_r +0\.\d{3} +\[", printed, re.MULTILINE)
    assert seen[3]["flickr30k"]
    assert "report.html" in seen[4]
    assert (workplace / "report" / "report.html").is_file()


def values(text):
    return {key: float(value) for key, value in re.findall(r"^ *(\S+/\S+) +([-\d.]+)", text, re.MULTILINE)}


def test_scored_embeddings_are_better_than_chance():
    found = values(run_example("examples/score_embeddings.py"))
    assert found["coco_5k/t2i/recall_at_1"] > 10 / 60
    assert {key.split("/")[0] for key in found} >= {"coco_5k", "cxc", "cxc_rated", "eccv_caption", "plausible_match"}
    assert "skipped coco_1k/i2t" in run_example("examples/score_embeddings.py")


def test_corrected_labels_change_the_training():
    plain, corrected = run_example("examples/corrected_labels.py").split("corrected\n")
    assert plain.startswith("plain\n")
    assert values(plain) != values(corrected)
    for found in (values(plain), values(corrected)):
        assert found["cxc/i2t/recall_at_5"] > 2 * 5 / 60  # five times one of 60 scenes is chance


def test_training_loop_is_a_block_of_its_page():
    script = (ROOT / "examples" / "train_pytorch.py").read_text(encoding="utf-8")
    loop = script.partition('"""\n\n')[2]
    assert loop in [block.text for block in blocks_of(DOCS / "training.md")]


@pytest.mark.thorough
def test_training_loop_learns(workplace):
    script = (ROOT / "examples" / "train_pytorch.py").read_text(encoding="utf-8")
    out = io.StringIO()
    changes = {"range(1)": "range(6)", "lr=1e-5": "lr=LEARNING_RATE"}
    for old, new in changes.items():
        assert script.count(old) == 1
        script = script.replace(old, new)
    with contextlib.redirect_stdout(out):
        exec(compile(script, "loop", "exec"), {"__name__": "__loop__", "LEARNING_RATE": 1e-3})
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", out.getvalue())]
    assert losses[-1] < losses[0]
    assert "CxC R@1" in out.getvalue()


def test_weak_positives_become_targets_of_their_weight(monkeypatch):
    import runpy

    targets = runpy.run_path(str(ROOT / "examples" / "corrected_labels.py"))["targets"]
    weak = [[{"caption_id": 8}], [], []]
    pairs = {"image_id": [1, 2, 1], "caption_id": [7, 8, 9], "weak_positives": weak}
    assert targets(pairs, 0.5).tolist() == [[1, 0.5, 1], [0, 1, 0], [1, 0, 1]]
    np.testing.assert_array_equal(targets(pairs, 0.0), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def test_added_metric_is_at_most_the_hit_rate():
    """The share of positives that it counts rises with K."""
    found = values(run_example("examples/add_a_metric.py"))
    for direction in ("i2t", "t2i"):
        ours = [found[f"eccv_caption/{direction}/positives_found_at_{k}"] for k in (1, 5, 10)]
        hits = [found[f"eccv_caption/{direction}/recall_at_{k}"] for k in (1, 5, 10)]
        assert ours == sorted(ours)
        assert all(part <= whole for part, whole in zip(ours, hits, strict=True))


def test_the_added_metric_is_right():
    import importlib.util

    path = ROOT / "examples" / "more_metrics" / "positives_found_at_k.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from cxc_eccv.types import PositiveRanks

    ranks = PositiveRanks.of([[1, 3, 30], [11], [2, 4]], n_positives=[3, 1, 4])
    assert module.positives_found_at_k(ranks, 10).tolist() == [2 / 3, 0, 2 / 4]
    assert module.SPEC.name == path.stem


def test_submit_example_refuses_a_sample_report():
    """It shows the results that it would send."""
    text = run_example("examples/submit.py")
    assert "refused: sample_report.json: it was computed from the edition 'sample'" in text
    assert "task_id: eccv_caption_i2t_map_at_r" in text


def test_an_official_report_is_shown_as_a_change(tmp_path):
    from official import official_report

    (tmp_path / "report.json").write_text(official_report())
    text = run_example("examples/submit.py", str(tmp_path / "report.json"))
    assert "refused" not in text
    assert "value: 0.3125" in text
