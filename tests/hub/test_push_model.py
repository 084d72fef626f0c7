"""A dual encoder on the local Hub, and back."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

PUSH = """
import torch
from transformers import AutoModel

from cxc_eccv.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.baselines.dual_encoder.loading import text_backbone
from cxc_eccv.sources.library import Library

text, tokenizer = text_backbone(Library("sample"))
model = DualEncoderModel.from_backbones(text, extra_layers=1, extra_feed_forward=16).eval()
model.push_to_hub("org/de_t2t")
loaded = AutoModel.from_pretrained("org/de_t2t").eval()
inputs = tokenizer(["a red heart"], return_tensors="pt", return_token_type_ids=False)
with torch.inference_mode():
    same = torch.equal(model(**inputs).text_embeds, loaded(**inputs).text_embeds)
told = [type(loaded).__name__, same]
"""


@pytest.mark.slow
def test_a_pushed_model_comes_back_equal(client):
    answer = client.code(PUSH)
    assert answer.told == ["DualEncoderModel", True], answer
