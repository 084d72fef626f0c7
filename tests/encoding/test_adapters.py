"""Adapters of peft: applied where they lie in a folder or in a loaded model, and refused without peft."""

import json
import shutil
import sys

import numpy as np
import pytest
import tiny_models
import torch
from transformers import AutoModel

import cxc_eccv as ce
from cxc_eccv.encoding import encode, load_model
from cxc_eccv.encoding.adapters import load_backbone
from cxc_eccv.encoding.identity import model_key
from cxc_eccv.errors import CheckpointMismatch, ModelError
from cxc_eccv.sources.download import mirror_folder

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by peft

IMAGES = mirror_folder("sample") / "coco" / "images"
PICTURES = [(seed, tiny_models.picture(seed)) for seed in range(1, 4)]
CAPTIONS = list(enumerate(tiny_models.TEXTS, start=100))

PROCESSORS = tiny_models.clip()[1:]


@pytest.fixture
def peft():
    return pytest.importorskip("peft", reason="comes with the extra 'dev'")


@pytest.fixture
def base(tmp_path):
    return str(tiny_models.save(tiny_models.clip(), tmp_path / "base"))


def add_lora(peft, base, seed=1, **settings):
    """A CLIP with random LoRA weights, which change its vectors."""
    torch.manual_seed(seed)
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, **{"r": 4} | settings)
    return peft.get_peft_model(AutoModel.from_pretrained(base), config).eval()


def vectors_of(model, **options):
    run = encode(model, images=PICTURES, captions=CAPTIONS, device="cpu", progress=False, **options)
    return np.concatenate([run.images.vectors, run.captions.vectors])


def test_folder_without_peft_names_the_remedy(base, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    config = {"peft_type": "LORA", "base_model_name_or_path": base}
    alone = tmp_path / "adapter"
    alone.mkdir()
    for folder in (alone, tmp_path / "base"):
        (folder / "adapter_config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match=r"holds an adapter, and peft.*pip install peft; or merge it first"):
            load_model(folder, device="cpu")
        with pytest.raises(ModelError, match="holds an adapter of peft, which is not read here; merge it first"):
            load_backbone(AutoModel, str(folder))


def test_folder_and_object_give_merged_vectors(peft, base, tmp_path):
    adapted = add_lora(peft, base)
    alone = tmp_path / "adapter"
    beside = tmp_path / "beside"
    shutil.copytree(base, beside)
    for folder in (alone, beside):
        adapted.save_pretrained(folder)
    found = {
        "adapter alone": vectors_of(str(alone)),
        "adapter beside its base": vectors_of(str(beside)),
        "object": vectors_of(adapted, processor=PROCESSORS),
    }
    loaded = load_model(adapted, processor=PROCESSORS)
    assert loaded.title == "base with an adapter"
    assert load_model(alone, device="cpu").title == "adapter"
    merged = vectors_of(adapted.merge_and_unload(), processor=PROCESSORS)
    assert np.abs(vectors_of(base) - merged).max() > 0.1
    for name, vectors in found.items():
        np.testing.assert_allclose(vectors, merged, rtol=1e-4, atol=1e-4, err_msg=name)


def test_key_knows_scale_and_active_adapter(peft, base):
    def key(adapted):
        return model_key(load_model(adapted, processor=PROCESSORS), ["captions"])

    adapted = add_lora(peft, base, lora_alpha=8)
    adapted.add_adapter("second", adapted.peft_config["default"])
    keys = [key(adapted), key(add_lora(peft, base, lora_alpha=8))]
    adapted.set_adapter("second")
    keys.append(key(adapted))
    with adapted.disable_adapter():
        keys.append(key(adapted))
    keys.append(key(add_lora(peft, base, lora_alpha=16)))
    assert len(set(keys)) == 5
    assert key(add_lora(peft, base, lora_alpha=16)) == keys[-1]


def write_settings(content):
    def write(path):
        path.write_text(content)

    return write


def edit_settings(**changes):
    def edit(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def name_bert_as_base(path):
    bert = tiny_models.save(tiny_models.bert(), path.with_name("bert"))
    edit_settings(base_model_name_or_path=str(bert), target_modules=["query"])(path)


REFUSED = {
    "of-another-library": (
        write_settings('{"config": {"architecture": "lora"}}'),
        ModelError,
        "adapter_config.json is not of peft",
    ),
    "settings-in-a-list": (write_settings("[]"), ModelError, "adapter_config.json is not of peft"),
    "broken-settings": (write_settings("{"), ModelError, "adapter_config.json cannot be read"),
    "base-not-named": (
        edit_settings(base_model_name_or_path=None),
        ModelError,
        "names no base_model_name_or_path",
    ),
    "base-absent": (
        edit_settings(base_model_name_or_path="org/absent"),
        ModelError,
        "org/absent: no model",
    ),
    "of-another-model": (
        name_bert_as_base,
        CheckpointMismatch,
        "adapter does not fit BertModel: it lacks weights, the first: encoder",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_adapter_that_cannot_be_applied_is_refused(peft, base, tmp_path, fault):
    spoil, error, message = REFUSED[fault]
    add_lora(peft, base).save_pretrained(tmp_path / "adapter")
    spoil(tmp_path / "adapter" / "adapter_config.json")
    with pytest.raises(error, match=message):
        load_model(tmp_path / "adapter", device="cpu")


def test_learned_prompts_are_refused(peft):
    bert = tiny_models.bert()[0]
    config = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=2)
    with pytest.raises(ModelError, match="has learned prompts, which only its own forward adds"):
        load_model(peft.get_peft_model(bert, config), processor=tiny_models.bert_tokenizer())


@pytest.mark.thorough
def test_report_and_training_use_the_adapter(peft, base, tmp_path, monkeypatch):
    pytest.importorskip("accelerate", reason="comes with the extra 'train'")
    from transformers import Trainer, TrainingArguments

    from cxc_eccv.training import RetrievalCallback

    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    options = {"tasks": "cxc/t2i", "images": IMAGES, "progress": False, "data_dir": "sample", "split": "validation"}
    adapted = add_lora(peft, base)
    report = ce.evaluate_model(load_model(adapted, processor=PROCESSORS), **options)
    trainer = Trainer(adapted, TrainingArguments(tmp_path / "run", use_cpu=True, report_to="none"), eval_dataset=[])
    RetrievalCallback("sample", "cxc/t2i", images=IMAGES, processor=PROCESSORS).add_to(trainer)
    scores = trainer.evaluate()
    assert report.name == "base with an adapter"
    assert report.scores == {key.removeprefix("eval_"): value for key, value in scores.items() if "cxc/" in key}
