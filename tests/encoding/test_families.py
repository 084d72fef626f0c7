"""Models without one vector per item: each is refused by its family, with the way to score it."""

import json

import numpy as np
import pytest
import tiny_models
import tiny_vision_language
import torch
import transformers

import cxc_eccv as ce
from cxc_eccv.encoding import encode, load_model, text_encoder
from cxc_eccv.errors import CheckpointMismatch, ModelError
from cxc_eccv.sources.download import mirror_folder

IMAGES = mirror_folder("sample") / "coco" / "images"

SPARSE = "is a sparse encoder .*--similarity dot"
LATE = "is a late-interaction model"
PAIRS = "is a cross-encoder or a classifier"
JOINT = "reads images and texts together and is not a dual encoder; .* sentence-transformers' form"

TRANSFORMER = {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
SPLADE = {
    "path": "1_SpladePooling",
    "type": "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
}
PYLATE = {"path": "1_Dense", "type": "pylate.models.Dense.Dense"}


@pytest.fixture
def folder(tmp_path):
    return tiny_models.save(tiny_models.bert(), tmp_path / "my-model")


def rewrite(path, **entries):
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | entries))


def save_modules(model_type, *modules):
    """As sentence-transformers saves a model of these modules; without a type, as its first versions did."""

    def save(folder):
        (folder / "modules.json").write_text(json.dumps(modules))
        entries = {} if model_type is None else {"model_type": model_type}
        rewrite(folder / "config_sentence_transformers.json", **entries)

    return save


def name_architecture(architecture):
    """The name alone, as no weights are read before."""

    def name(folder):
        rewrite(folder / "config.json", architectures=[architecture])
        (folder / "model.safetensors").unlink()

    return name


def tag_masked_language_model(tag):
    def write_tag(folder):
        rewrite(folder / "config.json", architectures=["BertForMaskedLM"])
        (folder / "README.md").write_text(f"---\ntags:\n- {tag}\n---\n")

    return write_tag


FAMILIES = {
    "sparse": (save_modules("SparseEncoder", TRANSFORMER, SPLADE), f"my-model {SPARSE}"),
    "sparse-by-module": (save_modules(None, TRANSFORMER, SPLADE), f"my-model {SPARSE}"),
    "sparse-by-tag-splade": (tag_masked_language_model("splade"), SPARSE),
    "sparse-by-tag-sparse-encoder": (tag_masked_language_model("sparse-encoder"), SPARSE),
    "many-vectors": (save_modules("MultiVectorEncoder", TRANSFORMER), f"my-model {LATE}"),
    "colbert-of-pylate": (save_modules("ColBERT", TRANSFORMER, PYLATE), f"my-model {LATE}"),
    "colbert-by-module": (save_modules(None, TRANSFORMER, PYLATE), f"my-model {LATE}"),
    "colbert": (name_architecture("HF_ColBERT"), rf"my-model \(HF_ColBERT\) {LATE}"),
    "colbert-alone": (name_architecture("ColBERT"), rf"my-model \(ColBERT\) {LATE}"),
    "colpali": (name_architecture("ColPaliForRetrieval"), rf"my-model \(ColPaliForRetrieval\) {LATE}"),
    "cross-encoder": (save_modules("CrossEncoder", TRANSFORMER), f"my-model {PAIRS}"),
    "classifier": (
        name_architecture("BertForSequenceClassification"),
        rf"my-model \(BertForSequenceClassification\) {PAIRS}",
    ),
    "unknown-encoder": (
        save_modules("NextEncoder", TRANSFORMER),
        "my-model is a NextEncoder of sentence-transformers, not a SentenceTransformer",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_family_without_vectors_is_refused(folder, family):
    spoil, message = FAMILIES[family]
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        text_encoder(folder, device="cpu")


@pytest.mark.parametrize("command", ["evaluate", "sts"])
def test_commands_refuse_a_classifier(command, folder, run_on_sample):
    name_architecture("BertForSequenceClassification")(folder)
    printed = run_on_sample(command, "--model", folder, status=2).err
    assert f"my-model (BertForSequenceClassification) {PAIRS}" in printed


def test_other_masked_language_model_is_pooled(folder):
    plain = text_encoder(folder, device="cpu")(["a dog"])
    rewrite(folder / "config.json", architectures=["BertForMaskedLM"])
    with pytest.warns(UserWarning, match="my-model is a masked language model .*: its head is left out"):
        encoder = text_encoder(folder, device="cpu")
    np.testing.assert_array_equal(encoder(["a dog"]), plain)


def test_head_of_unknown_class_is_named(tmp_path):
    model, tokenizer, _ = tiny_models.bert()
    folder = tiny_models.save([model, tokenizer], tmp_path / "own")
    rewrite(folder / "config.json", architectures=["BertWithHead"])
    text_encoder(folder, device="cpu")  # nothing is lost
    weights = model.state_dict() | {"linear.weight": torch.zeros(2, 16)}
    model.save_pretrained(folder, state_dict=weights)
    rewrite(folder / "config.json", architectures=["BertWithHead"])
    with pytest.raises(CheckpointMismatch, match=r"BertWithHead, which transformers lacks.*1 of its.*linear.weight"):
        text_encoder(folder, device="cpu")


@pytest.mark.parametrize("by_name", [True, False])
def test_generative_model_is_refused_in_one_sentence(by_name, tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    model, processor = tiny_vision_language.llava()
    folder = tiny_models.save([model, processor], tmp_path / "llava")
    with pytest.raises(ModelError, match=JOINT) as caught:
        ce.evaluate_model(folder if by_name else model, images=IMAGES, data_dir="sample", limit=2, progress=False)
    assert str(caught.value).count(". ") == 0
    assert not list((tmp_path / "cache").rglob("*.parts"))


LOADED = {
    "classifier": (transformers.BertForSequenceClassification, f"^BertForSequenceClassification .*{PAIRS}"),
    "masked-language-model": (
        transformers.BertForMaskedLM,
        "MaskedLMOutput, which has no last hidden states to pool; .*model.base_model",
    ),
}


@pytest.mark.parametrize("head", LOADED)
def test_loaded_model_with_another_head_is_refused(head):
    kind, message = LOADED[head]
    model = kind(tiny_models.bert_config()).eval()
    with pytest.raises(ModelError, match=message):
        text_encoder(model, processor=tiny_models.bert_tokenizer())(["a dog"])


def test_features_that_are_lists_are_refused(tmp_path):
    class Pieces(transformers.ViTModel):
        def get_image_features(self, pixel_values):
            return [pixel_values]

    output = tmp_path / "run.npz"
    with pytest.raises(ModelError, match="Pieces returns features of type list; need one vector per item"):
        encode(
            Pieces(tiny_models.vit_config()),
            images=[(1, tiny_models.picture(1))],
            processor=tiny_models.vit_images(),
            output=output,
            progress=False,
        )
    assert not output.with_name("run.npz.parts").exists()


@pytest.mark.thorough
def test_compiled_and_parallel_models_are_unwrapped():
    model, tokenizer, _ = tiny_models.bert()
    plain = text_encoder(model, processor=tokenizer)(tiny_models.TEXTS)
    for wrapped in (torch.compile(model, backend="eager"), torch.nn.DataParallel(model)):
        loaded = load_model(wrapped, processor=tokenizer)
        assert loaded.model is model
        assert loaded.title == "BertModel"
        np.testing.assert_array_equal(text_encoder(loaded)(tiny_models.TEXTS), plain)
