"""Scoring pairs with a saved classifier: the same number however they are batched, and clear words for bad input."""

import warnings

import entailment_models as cases
import numpy as np
import pytest
import tiny_models
import torch

from cxc_eccv.errors import InvalidOption, MalformedSource, ModelError, SourceMissing, TowerMissing
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.scoring import Classifier, load_classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model, processor = cases.classifier("bert with blip", calibration_scale=1.5, calibration_offset=-0.25)
    place = tmp_path_factory.mktemp("models") / "both"
    tiny_models.save((model, processor), place)
    return place


@pytest.fixture(scope="module")
def loaded(folder):
    return load_classifier(folder)


@pytest.mark.thorough
def test_classifier_has_folder_name_and_fingerprint(folder, loaded, tmp_path):
    assert loaded.name == "both"
    assert load_classifier(folder).fingerprint == loaded.fingerprint
    assert load_classifier(loaded) is loaded
    config, head, tokenizer = (load_classifier(folder) for _ in range(3))
    config.model.config.calibration_offset = 0.5
    with torch.no_grad():
        next(head.model.joint_head.parameters())[0] += 1e-3
    tokenizer.processor.visual_tokenizer.model_max_length -= 1
    half = load_classifier(folder, dtype="bfloat16")
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    assert len({one.fingerprint for one in (loaded, config, head, tokenizer, half)}) == 5


@pytest.mark.parametrize("batch_size", [1, 2, 4, 64])
def test_scores_are_calibrated_probabilities_whatever_the_batches(loaded, batch_size, tmp_path):
    files = []
    for place, picture in enumerate(cases.pictures()):
        if picture is not None and place != 3:
            picture.save(tmp_path / f"{place}.png")
            picture = tmp_path / f"{place}.png"
        files.append(str(picture) if place == 1 else picture)  # a name, a path, an image in memory, none
    found = loaded.score(cases.PREMISES, files, cases.HYPOTHESES, batch_size=batch_size, progress=False)
    assert (found.shape, found.dtype) == ((6,), np.float64)
    with torch.no_grad():
        logits = loaded.model(**cases.batch_of(loaded.processor, None)).logits.double().numpy()
    wanted = 1 / (1 + np.exp(-(1.5 * (logits[:, 1] - logits[:, 0]) - 0.25)))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_loaded_model_scores_with_its_processor():
    model, processor = cases.classifier("bert alone")
    found = load_classifier(model, processor=processor, name="mine")
    assert isinstance(found, Classifier)
    assert found.name == "mine"
    assert found.score(["a dog"], None, ["a"], progress=False).shape == (1,)
    assert found.score([], None, []).shape == (0,)
    with pytest.raises(ModelError, match="the model has no readable processor"):
        load_classifier(model)


def test_cut_premises_are_counted_in_one_warning(loaded):
    premises = ["a dog", "a dog on the street " * 9, "two cat " * 30]
    with pytest.warns(UserWarning, match="2 of 3 pairs are longer than the context of both") as seen:
        loaded.score(premises, None, ["a cat"] * 3, batch_size=1, progress=False)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.score(premises[:1], None, ["a cat"], progress=False)


@pytest.mark.parametrize(
    ("premise", "hypothesis", "cut", "read"),
    [
        ("a dog on the street " * 9, "two cat and a man", 1, "a dog on the street " * 3 + "a [SEP] two cat and a man "),
        ("a", "a", 0, "a [SEP] a "),
        ("the", "two cat and a man " * 9, 1, "the [SEP] " + "two cat and a man " * 4),
    ],
)
def test_truncation_cuts_the_premise_first(premise, hypothesis, cut, read):
    """The hypothesis is cut only if it is too long alone."""
    _, processor = cases.classifier("bert alone")
    prepared = processor.prepare([premise], None, [hypothesis])
    assert prepared.cut == cut
    assert processor.tokenizer.decode(prepared.inputs["input_ids"][0]) == f"[CLS] {read}[SEP]"


def test_each_branch_counts_its_own_truncation():
    model, _ = cases.classifier("bert with blip")
    narrow, wide = (tiny_models.bert_tokenizer(limit) for limit in (8, 40))
    image = [tiny_models.picture(1)]
    for text, visual, limits, cuts in ((narrow, wide, (8, 24), (1, 1, 0, 1)), (wide, narrow, (24, 8), (0, 1, 1, 0))):
        options = {"visual_tokenizer": visual, "image_processor": tiny_models.vit_images()}
        processor = EntailmentProcessor.for_model(model, text, **options)
        assert (processor.tokenizer.model_max_length, processor.visual_tokenizer.model_max_length) == limits
        pairs = (["a dog"], None), (["a dog"], image), ([""], image), (["a dog", "a"], [None, *image])
        assert tuple(processor.prepare(*pair, ["a dog " * 5, "a"][: len(pair[0])]).cut for pair in pairs) == cuts


def test_truncated_pairs_are_counted_without_images(loaded):
    long = "two cat and a man " * 9
    premises = ["a", long, "", ""]
    images = [None, None, "a.png", "b.png"]
    hypotheses = ["a", "a", long, "a"]
    assert loaded.processor.count_cut(premises, images, hypotheses) == 2
    pictures = [None if image is None else tiny_models.picture(1) for image in images]
    assert loaded.processor.prepare(premises, pictures, hypotheses).cut == 2


def test_images_that_cannot_be_read_are_named(loaded, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(MalformedSource, match=r"broken\.png"):
        loaded.score(["a dog"], [tmp_path / "broken.png"], ["a"], progress=False)
    with pytest.raises(SourceMissing, match=r"missing\.png"):
        loaded.score(["a dog"], [tmp_path / "missing.png"], ["a"], progress=False)


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ((["a", "a"], None, ["a"]), {}, "2 premises, 2 images and 1 hypotheses"),
        ((["a"], [None, None], ["a"]), {}, "1 premises, 2 images and 1 hypotheses"),
        ((["a", " "], None, ["a", "a"]), {}, "pair 1 has neither premise nor image"),
        ((["a"], None, [" "]), {}, "pair 0: the hypothesis is empty"),
        ((["a"], None, ["a"]), {"batch_size": 0}, "batch_size"),
        (([""], [tiny_models.picture(1)], ["a"]), {}, "pair 0 has only an image"),
    ],
)
def test_malformed_pair_is_refused_before_any_work(pairs, options, message):
    model, processor = cases.classifier("bert alone")
    with pytest.raises((InvalidOption, TowerMissing), match=message):
        load_classifier(model, processor=processor).score(*pairs, **options)


def test_values_that_are_not_finite_are_refused():
    model, processor = cases.classifier("bert alone")
    with torch.no_grad():
        model.text_head[-1].bias.fill_(float("nan"))
    with pytest.raises(ModelError, match="1 of 1 probabilities that are not finite"):
        load_classifier(model, processor=processor).score(["a"], None, ["a"], progress=False)


def test_other_models_and_folders_without_processor_are_named(tmp_path, folder):
    bert, tokenizer, _ = tiny_models.bert()
    other = tiny_models.save((bert, tokenizer), tmp_path / "bert")
    with pytest.raises(ModelError, match=r"bert is a model of type bert, not a classifier of entailment"):
        load_classifier(other)
    dual = tmp_path / "dual"  # of a type that transformers may not know
    dual.mkdir()
    (dual / "config.json").write_text('{"model_type": "cxc_eccv_dual_encoder"}')
    with pytest.raises(ModelError, match="dual is a model of type cxc_eccv_dual_encoder, not a classifier of ent"):
        load_classifier(dual)
    with pytest.raises(ModelError, match=r"BertModel\) is no classifier of entailment"):
        load_classifier(bert)
    with pytest.raises(ModelError, match="no model there"):
        load_classifier(tmp_path / "nothing")
    model, _ = cases.classifier("bert alone")
    model.save_pretrained(tmp_path / "bare")
    with pytest.raises(ModelError, match=r"bare has no readable processor"):
        load_classifier(tmp_path / "bare")


def test_a_processor_needs_what_its_model_reads():
    tokenizer = tiny_models.bert_tokenizer()
    images = tiny_models.vit_images()
    for arguments in ((), (tokenizer, tokenizer), (None, None, images), (tokenizer, None, images)):
        with pytest.raises(InvalidOption, match="for the visual branch"):
            EntailmentProcessor(*arguments)
    model, _ = cases.classifier("bert with blip")
    with pytest.raises(InvalidOption, match="a visual branch a tokenizer and an image processor"):
        EntailmentProcessor.for_model(model, tokenizer)
    with pytest.raises(InvalidOption, match="a text branch needs a tokenizer"):
        EntailmentProcessor.for_model(model, image_processor=images, visual_tokenizer=tokenizer)
    with pytest.raises(InvalidOption, match=r"the tokenizer has \d+ tokens, but BertModel embeds only 22"):
        EntailmentProcessor.for_model(cases.classifier("bert alone")[0], tiny_models.clip_tokenizer())


def test_image_is_opened_once_per_batch(loaded, tmp_path, monkeypatch):
    from cxc_eccv.studies.entailment import scoring

    opened = []
    whole = scoring.open_picture
    monkeypatch.setattr(scoring, "open_picture", lambda source: opened.append(source.name) or whole(source))
    files = [path for _, path in tiny_models.picture_files(tmp_path, 2)]
    loaded.score(["a dog"] * 6, files * 3, ["a cat", "a", "a man"] * 2, batch_size=3, progress=False)
    assert opened == [path.name for path in files]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_processor_accepts_images_of_other_modes(loaded, mode):
    picture = tiny_models.picture(1).convert(mode)
    given, wanted = (loaded.processor([""], [one], ["a"])["pixel_values"] for one in (picture, picture.convert("RGB")))
    assert torch.equal(given, wanted)
    with pytest.raises(MalformedSource, match="8 bits a channel"):
        loaded.processor([""], [tiny_models.picture(1).convert("F")], ["a"])
