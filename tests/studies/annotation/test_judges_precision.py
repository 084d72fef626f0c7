"""The precision of a judge among the pairs that a model retrieves, from people's answers about drawn ones."""

import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotated_projects import judge_all, knows, noisy_run, save_runs, write_answers

import cxc_eccv as ce
from cxc_eccv.registry import task
from cxc_eccv.statistics import estimate_mean
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.proposing import ProposalOptions

KEY = "entailment/i2t/entail_at_10"


def judge(library):
    """A judge that calls nearly half of all pairs entailed."""
    return judge_all(library, partial(np.random.default_rng(0).beta, 2, 2.3))


@pytest.fixture
def asked(command, tmp_path, sample_library):
    """A file of a model, one of a judge, and what a first evaluation prints."""
    (run,) = save_runs(tmp_path, sample_library, seeds=(0,))
    pq.write_table(judge(sample_library), tmp_path / "judge.parquet")
    options = ("--tasks", "entailment", "--metrics", "entail_at_10", "--judge", "judge.parquet")
    return run, options, command("evaluate", run, *options)


def answer(command, project, tmp_path):
    """Import and merge the answers to a project's sheets."""
    rows = knows(project)
    says = lambda image, caption: dict.fromkeys(("describes", "follows"), rows(image, caption) == "yes")  # noqa: E731
    command("import", project.folder, write_answers(tmp_path / "ann.jsonl", project, "ann", says))
    command("merge", project.folder)


def test_the_printed_command_leads_to_the_judges_precision(command, asked, tmp_path, sample_library):
    run, options, printed = asked
    assert re.search(r"judge +precision unknown", printed)
    words = re.search(r"cxc-eccv annotate (propose .* JUDGE)", " ".join(printed.split()))[1].split()
    given = {"FOLDER": "mine", "RUN": run, "JUDGE": "judge.parquet"}
    command(*(given.get(word, word) for word in words))
    project = Project.open(tmp_path / "mine", sample_library)
    assert project.scheme.name == "entailment"
    answer(command, project, tmp_path)
    corrected = command("evaluate", run, *options, "--answers", "mine", "--output", "out")
    (shown,) = re.findall(r"judge +precision (\d+\.\d) \[\d+\.\d, \d+\.\d\]", corrected)
    assert "precision unknown" not in corrected
    (result,) = ce.load_report(tmp_path / "out").results
    assert f"{100 * result.bounds.precision:.1f}" == shown
    pages = [(tmp_path / "out" / name).read_text().replace("\\", "") for name in ("report.md", "report.html")]
    assert all(f"precision {shown} [" in page for page in pages)


def test_judge_precision_is_the_share_of_positives(command, tmp_path, sample_library):
    guesses = judge(sample_library)
    run = noisy_run(sample_library, 0)
    draw = {"strategy": "active", "number": KEY, "budget": 200, "judge": guesses}
    project = Project.create(tmp_path / "mine", sample_library, name="mine", scheme="entailment")
    project = project.propose({"first": run}, ProposalOptions(**draw))
    answer(command, project, tmp_path)
    options = {"metrics": ["entail_at_10"], "data_dir": sample_library, "bounds": True, "answers": project.folder}
    bounds = ce.evaluate(run, "entailment", judge=guesses, **options).results[0].bounds
    scores = run.images.vectors @ run.captions.vectors.T / np.linalg.norm(run.captions.vectors, axis=1)
    tops = zip(run.images.ids.tolist(), run.captions.ids[np.argsort(-scores)[:, :10]].tolist(), strict=True)
    judged = task("entailment").judgments(sample_library.split("test"), "i2t")
    known = set(zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True))
    columns = (guesses[name].to_pylist() for name in ("image_id", "caption_id", "probability"))
    chances = {(image, caption): chance for image, caption, chance in zip(*columns, strict=True)}
    retrieved = [(image, caption) for image, captions in tops for caption in captions]
    entailed = [pair for pair in retrieved if pair not in known and chances[pair] >= 0.5]
    table = pq.read_table(tmp_path / "mine" / "labels.parquet").to_pylist()
    labels = {(row["image_id"], row["caption_id"]): row for row in table}
    places = [place for place, pair in enumerate(entailed) if pair in labels]
    answered = [labels[entailed[place]] for place in places]
    expected = estimate_mean(
        [chances[pair] for pair in entailed],
        places,
        [float(row["positive"]) for row in answered],
        [row["drawn"] for row in answered],
    ).as_share
    found = (bounds.precision, bounds.precision_low, bounds.precision_high)
    assert found == pytest.approx((expected.value, expected.low, expected.high))
    without = ce.evaluate(run, "entailment", unjudged="not_entailed", judge=guesses, **options).results[0].bounds
    assert (without.precision, without.estimate) == (None, bounds.estimate)  # no judge's answer is in the value


def test_too_few_answers_leave_the_precision_unknown(command, tmp_path, sample_library):
    """A judge that calls two pairs entailed."""
    guesses = judge(sample_library)
    run = noisy_run(sample_library, 0)
    draw = {"strategy": "active", "number": KEY, "budget": 100, "judge": guesses}
    project = Project.create(tmp_path / "mine", sample_library, name="mine", scheme="entailment")
    answer(command, project.propose({"first": run}, ProposalOptions(**draw)), tmp_path)
    strict = guesses.append_column("label", pa.array(np.arange(guesses.num_rows) < 2).cast("int64"))
    options = {"metrics": ["entail_at_10"], "data_dir": sample_library, "bounds": True, "answers": tmp_path / "mine"}
    report = ce.evaluate(run, "entailment", judge=strict, **options)
    assert report.results[0].bounds.precision is None
    assert "precision unknown" in str(report)
