"""What users pass by mistake: each gets one error of the package, on the command line and in Python."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, NoSuchFile, SourceMissing
from cxc_eccv.runs import load_embeddings
from cxc_eccv.runs.run import EmbeddingsRun
from cxc_eccv.sources.download import image_folder
from cxc_eccv.types import Embeddings

LONG = "a" * 300
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: pip install torch")
TOO_LONG = "a name in this path is longer than file systems allow"


@pytest.fixture
def vectors(tmp_path, sample_library, monkeypatch):
    """Random vectors of the sample's test split, in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    split = sample_library.split("test")
    random = np.random.default_rng(0)
    sides = [Embeddings(ids, random.standard_normal((ids.size, 4))) for ids in (split.image_ids, split.caption_ids)]
    ce.save_embeddings("v.npz", EmbeddingsRun(*sides))
    return load_embeddings("v.npz")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", f"{LONG}.npz"), TOO_LONG),
        (("evaluate", "v.npz", "--labels", f"{LONG}.csv"), TOO_LONG),
        (("evaluate", "v.npz", "--data-dir", LONG), TOO_LONG),
        (("evaluate", "v.npz", "--output", LONG), "File name too long"),
        pytest.param(("evaluate", "--model", LONG), "File name too long", marks=NEEDS_TORCH),
        (("compare", LONG, "v"), TOO_LONG),
        (("report", LONG), TOO_LONG),
        (("evaluate", "v.npz", "--metrics", "recall_at_" + "9" * 5000), "k has 5,000 digits, expected at most 20"),
        (
            ("evaluate", "v.npz", "--labels", "x.csv", "--tasks", "annotated"),
            "needs labels with gains; leave out the table of labels x (--labels); there is no label file",
        ),
        (
            ("evaluate", "v.npz", "--labels", "x.csv", "--tasks", "annotated", "--sources", "x"),
            "needs labels with gains; leave out sources (--sources)",
        ),
        (("evaluate", "v.npz", "--labels", "x.parquet.gz"), "labels are read from .parquet, .csv, .jsonl"),
    ],
)
def test_command_line_refuses_with_one_message(vectors, run, arguments, words):
    pairs = zip(vectors.images.ids.tolist(), vectors.captions.ids.tolist(), strict=False)
    rows = "".join(f"{image},{caption}\n" for image, caption in pairs)
    Path("x.csv").write_text(f"image_id,caption_id\n{rows}")
    Path("x.parquet.gz").write_bytes(b"PAR1")
    sample = () if arguments[0] != "evaluate" or "--data-dir" in arguments else ("--data-dir", "sample")
    status, out, error = run(*arguments, *sample)
    assert (status, out, error.count("cxc-eccv: ")) == (2, "", 1)
    assert words in error


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("evaluate", "v.npz", "--bounds", "true"), "--bounds takes no value; leave out 'true'"),
        (("evaluate", "--bounds", "NO", "v.npz"), "--bounds takes no value; leave out '--bounds NO'"),
        (("compare", "old", "--published", "1"), "--published takes no value; leave out '1'"),
        (("annotate", "merge", "mine", "--allow-modified", "0"), "--allow-modified takes no value"),
        (("push", "data", "me/data", "--with-answers", "yes"), "--with-answers takes no value"),
    ],
)
def test_value_of_boolean_option_is_refused(vectors, run, arguments, what):
    status, out, error = run(*arguments)
    assert (status, out) == (2, "")
    assert what in error


def test_file_named_like_boolean_word_is_read(vectors, run):
    Path("v.npz").rename("1")
    assert "takes no value" not in run("evaluate", "--bounds", "1", "--data-dir", "sample")[2]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ce.load_run(f"{LONG}.npz"), NoSuchFile),
        (lambda: load_embeddings(f"{LONG}.npz"), NoSuchFile),
        (lambda: ce.load_report(LONG), NoSuchFile),
        (lambda: ce.load("sits", split="test", data_dir=LONG), NoSuchFile),
        (lambda: ce.Library("sample", labels=f"{LONG}.csv").label_names, NoSuchFile),
        (lambda: image_folder(LONG), NoSuchFile),
        (lambda: ce.load_run("a\0.npz"), NoSuchFile),
        (lambda: ce.Library("sample", labels="a\0.csv").label_names, SourceMissing),
    ],
)
def test_path_that_no_file_can_have_is_refused(call, error):
    with pytest.raises(error, match=r"no such|longer than file systems allow|not a folder"):
        call()


@pytest.mark.parametrize(
    ("kind", "form"), [(str, "COCO_val2014_{:012d}.jpg"), (bytes, "{:012d}.jpg"), (object, "{}"), (str, "{}")]
)
def test_advice_for_ids_as_file_names_works(vectors, kind, form):
    image_ids = np.array([form.format(number) for number in vectors.images.ids.tolist()]).astype(kind)
    arrays = {"caption_ids": vectors.captions.ids, "caption_embeddings": vectors.captions.vectors}
    arrays["image_embeddings"] = vectors.images.vectors
    np.savez("names.npz", image_ids=image_ids, **arrays)
    with pytest.raises(MalformedRun, match=r"names\.npz, image_ids: .*Save the COCO ids") as error:
        ce.load_run("names.npz")
    names = {"image_ids": image_ids}
    exec(str(error.value).rpartition("files: ")[2], names)
    np.savez("names.npz", image_ids=names["image_ids"], **arrays)
    assert ce.load_run("names.npz").images.ids.tolist() == vectors.images.ids.tolist()


def test_depth_of_many_digits_is_refused(vectors):
    with pytest.raises(InvalidOption, match=r"recall_at_k: k has 21 digits, expected at most 20"):
        ce.evaluate(vectors, "coco_5k", metrics=["R@" + "9" * 21], data_dir="sample")
