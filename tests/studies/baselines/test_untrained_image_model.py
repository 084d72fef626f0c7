"""The pooled features of a tiny image model, by folder of images, through the command line."""

import json

import pytest
import transformers

from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.sources.download import sample_images
from cxc_eccv.studies.baselines.untrained import Inputs, baseline_named


@pytest.fixture
def saved_vit(tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = transformers.ViTConfig(image_size=32, patch_size=8, **sizes)
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def test_an_image_model_gives_image_image_retrieval(sample_library, saved_vit):
    inputs = Inputs(model=str(saved_vit), images=sample_images())
    report, run = baseline_named("image_features")(sample_library.split(), inputs)
    assert run.images.vectors.shape == (len(sample_library.split("test").images), 16)
    assert {key.rpartition("/")[0] for key in report.scores} == {"cxc/i2i", "cxc/sis"}
    assert json.dumps(report.provenance.model)


def test_central_crop_changes_vectors_and_is_recorded(sample_library, saved_vit):
    """Baselines that encode no image refuse it."""
    found = {}
    for share in (None, 0.875):
        inputs = Inputs(model=str(saved_vit), images=sample_images(), central_crop=share)
        report, found[share] = baseline_named("image_features")(sample_library.split(), inputs)
        assert report.provenance.others.get("central_crop") == share
    assert (found[None].images.vectors != found[0.875].images.vectors).any()
    inputs = Inputs(features=saved_vit / "features.npz", central_crop=0.875)
    with pytest.raises(InvalidOption, match="it does not apply to the features of a file"):
        baseline_named("image_features")(sample_library.split(), inputs)
    with pytest.raises(InvalidOption, match="random does not take --central-crop"):
        baseline_named("random")(sample_library.split(), Inputs(central_crop=0.875))


def test_missing_image_is_named(sample_library, saved_vit, tmp_path):
    with pytest.raises(SourceMissing, match=r"the first missing one is COCO_val2014"):
        baseline_named("image_features")(sample_library.split(), Inputs(model=str(saved_vit), images=tmp_path))
