"""A dual encoder and a classifier of entailment on the local Hub, and back."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

PUSH = """
import torch
from transformers import AutoModel

from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.baselines.dual_encoder.model import text_backbone
from cxc_eccv.sources.library import Library

text, tokenizer = text_backbone("sample")
model = DualEncoderModel.from_backbones(text, extra_layers=1, extra_feed_forward=16).eval()
model.push_to_hub("org/de_t2t")
loaded = AutoModel.from_pretrained("org/de_t2t").eval()
inputs = tokenizer(["a red heart"], return_tensors="pt", return_token_type_ids=False)
with torch.inference_mode():
    same = torch.equal(model(**inputs).text_embeds, loaded(**inputs).text_embeds)
told = [type(loaded).__name__, same]
"""
CODE = "cxc_eccv_dual_encoder.py"


@pytest.mark.slow
def test_a_pushed_model_comes_back_equal(hub, client):
    answer = client.code(PUSH)
    assert answer.told == ["DualEncoderModel", True], answer
    assert CODE in hub.store.repositories["model", "org/de_t2t"].files()


PUSH_CLASSIFIER = """
from cxc_eccv.studies.baselines.entailment_classifier.options import LossOptions, ModelOptions
from cxc_eccv.studies.baselines.entailment_classifier.model import make_model
from cxc_eccv.studies.entailment.scoring import load_classifier

parts = dict(text_model="sample", visual_text_model="sample", image_model="sample")
model, processor = make_model(ModelOptions(**parts), LossOptions())
model.config.threshold = 0.25
model.push_to_hub("org/entails")
processor.push_to_hub("org/entails")
loaded = load_classifier("org/entails")
model.save_pretrained("kept")
processor.save_pretrained("kept")
pair = dict(premises=["a red heart"], images=[None], hypotheses=["a heart"], progress=False)
same = (loaded.score(**pair) == load_classifier("kept").score(**pair)).all()
told = [type(loaded.model).__name__, loaded.model.config.threshold, bool(same)]
"""


@pytest.mark.slow
def test_a_pushed_classifier_comes_back_equal(hub, client):
    answer = client.code(PUSH_CLASSIFIER)
    assert answer.told == ["EntailmentClassifier", 0.25, True], answer
    assert "cxc_eccv_entailment.py" in hub.store.repositories["model", "org/entails"].files()


TRAIN = (
    *("train", "dual-encoder", "--data-dir", "sample", "--no-pretraining", "--text-model", "sample", "--mode", "t2t"),
    *("--use-cpu", "--per-device-train-batch-size", "32", "--max-steps", "1", "--train-on", "coco/train"),
    *("--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end", "--report-on", "test"),
    *("--push-to-hub", "--hub-model-id", "org/de_t2t", "--extra-layers", "0", "--train-text-model"),
)


@pytest.mark.slow
def test_trained_model_is_pushed_with_card_and_report(hub, client, tmp_path):
    client.command(*TRAIN, "--output-dir", tmp_path / "de")
    there = hub.store.repositories["model", "org/de_t2t"].files()
    expected = {"config.json", "model.safetensors", "tokenizer.json", "report/report.json", "report/report.html"}
    expected |= {CODE, "modules.json", "0_Transformer/model.safetensors", "1_Pooling/config.json"}
    assert expected <= set(there)
    assert there["README.md"] == (tmp_path / "de" / "README.md").read_bytes()
    assert b"## Results" in there["README.md"]
