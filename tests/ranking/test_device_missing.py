"""A device without torch is an error that says what to install."""

import subprocess
import sys

import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking import positive_ranks_many
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments


def test_a_device_needs_torch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run = EmbeddingsRun(Embeddings([1], [[1.0]]), Embeddings([7], [[1.0]]))
    with pytest.raises(InvalidOption, match="device 'cuda' needs torch, which is not installed: pip install torch"):
        positive_ranks_many(run, {"": ("i2t", Judgments.from_pairs([1], [7], [1], [7]))}, device="cuda")


@pytest.mark.thorough
def test_ranking_does_not_import_torch():
    program = "import sys, cxc_eccv.ranking, cxc_eccv.evaluation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
