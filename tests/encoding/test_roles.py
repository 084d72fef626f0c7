"""Prompts of queries and gallery: vectors equal those of sentence-transformers, and equal prompts cost one pass."""

import json

import numpy as np
import pytest
import tiny_models
import tiny_vision_language

from cxc_eccv.encoding import encode, encode_once, load_model, text_encoder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs import load_run

st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")

CAPTIONS = list(enumerate(tiny_models.TEXTS, start=100))
SAVED = {"query": "a dog ", "document": "the man "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save(tiny_models.bert(), tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def make(folder):
    """A sentence-transformers model with these saved prompts, and a list of the prompts of its passes."""

    def build(prompts=SAVED, default=None):
        model = st.SentenceTransformer(str(folder), device="cpu", prompts=prompts, default_prompt_name=default)
        passes = []
        plain = model.encode

        def watch(inputs, **options):
            passes.append(options["prompt"])
            return plain(inputs, **options)

        model.encode = watch
        return model, passes

    return build


def encode_captions(model, **options):
    return encode(load_model(model, **options), captions=CAPTIONS, progress=False)


def vectors(run, role):
    return run.find_vectors("captions", role).vectors


def test_saved_prompts_of_roles_are_the_default(make):
    model, passes = make()
    run = encode_captions(model)
    assert passes == ["the man ", "a dog ", ""]
    for role, expected in (("query", "encode_query"), ("gallery", "encode_document"), ("symmetric", "encode")):
        plain = getattr(model, expected)(tiny_models.TEXTS, **({"prompt": ""} if expected == "encode" else {}))
        np.testing.assert_allclose(vectors(run, role), plain, rtol=1e-5, atol=1e-6)
    assert run.encoding.prompts_from == "the model"
    assert run.encoding.prompts == {"captions": "the man {}", "caption_query": "a dog {}", "caption_symmetric": "{}"}


PASSES = {
    "no prompts": ({}, None, {}, [""]),
    "query alone": ({"query": "a dog "}, None, {}, ["", "a dog "]),
    "passage": ({"query": "a dog ", "passage": "the man "}, None, {}, ["the man ", "a dog ", ""]),
    "default": (SAVED, "query", {}, ["a dog "]),
    "prompt of all": (SAVED, None, {"caption_prompt": "bus {}"}, ["bus "]),
    "none of all": (SAVED, None, {"caption_prompt": "{}"}, [""]),
    "equal": (SAVED, None, {"query_prompt": "bus {}", "gallery_prompt": "bus {}"}, ["bus "]),
    "by name": (SAVED, None, {"query_prompt": "document", "gallery_prompt": "query"}, ["a dog ", "the man ", ""]),
    "query named": (SAVED, None, {"query_prompt": "bus {}"}, ["the man ", "bus ", ""]),
    "pairs named": (SAVED, None, {"query_prompt": "bus {}", "caption_prompt": "a {}"}, ["a ", "bus "]),
}


@pytest.mark.parametrize(("saved", "default", "options", "expected"), PASSES.values(), ids=PASSES)
def test_equal_prompts_cost_one_pass(make, saved, default, options, expected):
    model, passes = make(saved, default)
    run = encode_captions(model, **options)
    assert passes == expected
    assert bool(run.roles) == (len(expected) > 1)


def test_sentence_similarity_takes_no_role(make):
    model, passes = make()
    vectors = text_encoder(model)(tiny_models.TEXTS)
    assert passes == [""]
    np.testing.assert_allclose(vectors, model.encode(tiny_models.TEXTS, prompt=""), rtol=1e-5, atol=1e-6)


def test_prompts_of_roles_work_on_dual_encoders():
    model, tokenizer, images = tiny_models.clip()
    loaded = load_model(model, processor=(tokenizer, images), query_prompt="find {}.")
    pictures = [(seed, tiny_models.picture(seed)) for seed in (1, 2)]
    run = encode(loaded, captions=CAPTIONS, images=pictures, progress=False)
    plain = encode(model, captions=CAPTIONS, images=pictures, processor=(tokenizer, images), progress=False)
    found = [(number, f"find {text}.") for number, text in CAPTIONS]
    asked = encode(model, captions=found, processor=(tokenizer, images), progress=False)
    assert list(run.roles) == ["caption_query"]  # it reads no text with an image
    np.testing.assert_array_equal(run.captions.vectors, plain.captions.vectors)
    np.testing.assert_array_equal(run.images.vectors, plain.images.vectors)
    np.testing.assert_array_equal(vectors(run, "query"), asked.captions.vectors)


def test_bad_prompts_of_roles_are_refused(make):
    model, _ = make()
    with pytest.raises(InvalidOption, match=r"query prompt 'passage': write \{\} once.*name a prompt of the model"):
        load_model(model, query_prompt="passage")
    with pytest.raises(
        InvalidOption, match="scores pairs, which have no queries; leave out query_prompt and gallery_prompt"
    ):
        load_model(tiny_models.blip()[0], gallery_prompt="a {}")


def test_cache_and_parts_know_prompts_of_roles(make, tmp_path):
    model, passes = make()
    path = tmp_path / "run.npz"
    run, _ = encode_once(load_model(model), path, captions=CAPTIONS, progress=False)
    assert encode_once(load_model(model), path, captions=CAPTIONS, progress=False)[1]
    assert len(passes) == 3
    assert load_run(path).roles.keys() == run.roles.keys() == {"caption_query", "caption_symmetric"}
    assert json.loads(path.with_name("run.encoding.json").read_text())["encoding"]["prompts_from"] == "the model"
    with pytest.raises(InvalidOption, match="is not an encoding of these images and captions"):
        encode_once(load_model(model, query_prompt="bus {}"), path, captions=CAPTIONS, progress=False)


def test_routed_models_get_the_task(folder):
    """Two different towers: queries and documents differ though no prompt does."""
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    towers = [Transformer(str(folder)) for _ in range(2)]
    with tiny_models.torch.no_grad():
        for parameter in towers[1].parameters():
            parameter.mul_(0.5)
    parts = [[tower, Pooling(16)] for tower in towers]
    model = st.SentenceTransformer(modules=[Router.for_query_document(*parts)], device="cpu")
    run = encode_captions(model)
    for role, expected in (("query", model.encode_query), ("gallery", model.encode_document)):
        np.testing.assert_allclose(vectors(run, role), expected(tiny_models.TEXTS), rtol=1e-5, atol=1e-6)
    assert np.abs(vectors(run, "query") - vectors(run, "gallery")).max() > 0.01


def test_vision_language_model_is_scored_by_name(tmp_path, run_on_sample):
    """A chat template, the last token, images on both sides, and a prompt of queries without a default."""
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    base = tiny_models.save(tiny_vision_language.llava(), tmp_path / "llava")
    modules = [Transformer(str(base)), Pooling(16, "lasttoken"), Normalize()]
    prompts = {"query": "Does this", "document": ""}
    model = st.SentenceTransformer(modules=modules, device="cpu", prompts=prompts)
    model.save_pretrained(str(tmp_path / "vision-language"))
    pictures = [(seed, tiny_models.picture(seed)) for seed in (1, 2, 3)]
    captions = [(1, "a dog"), (2, "the man with a dog or the cat . the image"), (3, "a")]
    loaded = load_model(str(tmp_path / "vision-language"), device="cpu")
    run = encode(loaded, images=pictures, captions=captions, progress=False)
    for side, items in (("images", pictures), ("captions", captions)):
        for role, encode_role in (("query", model.encode_query), ("gallery", model.encode_document)):
            alone = np.concatenate([encode_role([item]) for _, item in items])
            np.testing.assert_allclose(run.find_vectors(side, role).vectors, alone, rtol=1e-4, atol=1e-5)
        assert np.abs(run.find_vectors(side, "query").vectors - run.find_vectors(side).vectors).max() > 0.01
    words = ("--model", tmp_path / "vision-language", "--images", "sample", "--limit", 3, "--tasks", "coco_5k")
    run_on_sample("evaluate", *words, "--output", tmp_path / "report")
    facts = json.loads((tmp_path / "report" / "report.json").read_text())["provenance"]["run"]
    assert facts["roles"] == ["caption_query", "image_query"]
    assert facts["encoding"]["prompts_from"] == "the model"
    with pytest.raises(InvalidOption, match=r"reads a prompt before the item, images too; end the prompt with \{\}"):
        load_model(model, query_prompt="find {} now")
