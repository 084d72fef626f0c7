"""Add a metric: one file with a function and its SPEC, found by its place.

    python examples/add_a_metric.py

``more_metrics/positives_found_at_k.py`` is the whole metric. In a checkout it belongs in ``cxc_eccv/metrics/``, where
the registry finds it; this script adds its folder to the package instead.
"""

from pathlib import Path

import numpy as np

import cxc_eccv as ce
import cxc_eccv.metrics
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

cxc_eccv.metrics.__path__.append(str(Path(__file__).parent / "more_metrics"))


def main() -> None:
    """Score random vectors under the new metric and the field's Recall@K."""
    names = ["positives_found_at_k", "recall_at_k"]
    report = ce.evaluate(random_vectors(), "eccv_caption", metrics=names, data_dir="sample")
    for result in report.results:
        print(f"{result.key:44} {result.value:.3f}  95% interval {result.low:.3f} to {result.high:.3f}")


def random_vectors() -> EmbeddingsRun:
    """Random vectors for every image and caption."""
    library, random = ce.Library("sample"), np.random.default_rng(0)
    ids = library.split("test").images["image_id"].to_numpy(), library.split("test").captions["caption_id"].to_numpy()
    return EmbeddingsRun(*(Embeddings(one, random.standard_normal((one.size, 16))) for one in ids))


if __name__ == "__main__":
    main()
