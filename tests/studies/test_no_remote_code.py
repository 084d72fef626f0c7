"""Neither a classifier of entailment nor a dual encoder is started from a checkpoint that brings code of its own."""

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install '.[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

import entailment_models  # noqa: E402 - after the skip
from foreign_code import REFUSED, TOKENIZER  # noqa: E402

from cxc_eccv.errors import ModelError  # noqa: E402
from cxc_eccv.studies.baselines.dual_encoder.options import ModelOptions  # noqa: E402
from cxc_eccv.studies.baselines.dual_encoder.script import make_model  # noqa: E402
from cxc_eccv.studies.entailment.scoring import load_classifier  # noqa: E402


@pytest.mark.parametrize("below", ["", "visual_tokenizer"])
def test_the_tokenizers_of_a_classifier_are_refused(below, tmp_path, bring_code):
    path = tmp_path / "classifier"
    tiny_models.save(entailment_models.classifier("bert with blip"), path)
    bring_code(path / below / TOKENIZER[0], TOKENIZER[1])
    with pytest.raises(ModelError, match=REFUSED):
        load_classifier(path, device="cpu")


def test_the_tokenizer_inside_a_processor_is_refused(tmp_path, bring_code):
    # AutoProcessor does not hand on to a processor known by its config that no code is trusted.
    path = tiny_models.save(tiny_models.dual(), tmp_path / "dual")
    bring_code(path / TOKENIZER[0], TOKENIZER[1])
    with pytest.raises(ModelError, match=REFUSED):
        make_model(ModelOptions(pretrained=str(path)), "both")
