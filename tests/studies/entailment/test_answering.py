"""Kinds of judges: models of the Hub, endpoints, and how a name stands for one of them."""

import warnings

import numpy as np
import pytest
import tiny_models

from PIL import Image

from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.studies.entailment.judge import ClassifierJudge

torch = pytest.importorskip("torch", reason="torch is not installed")
import transformers  # noqa: E402

import tiny_vision_language  # noqa: E402

from cxc_eccv.studies.entailment.answering import announce, kinds  # noqa: E402
from cxc_eccv.studies.entailment.answering.vision_language import VisionLanguage, spellings  # noqa: E402

PREMISES = ["a dog on the street", "the woman with a red ball", "two cat and a man in the bus"]
HYPOTHESES = ["a dog", "a man rides the bus", "the cat"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))


def save_classifier(folder, labels):
    config = tiny_models.bert_config()
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    model = tiny_models.seeded(lambda: transformers.BertForSequenceClassification(config))
    tiny_models.save((model, tiny_models.bert_tokenizer()), folder)
    return model


class TestCrossEncoder:
    @pytest.mark.parametrize("labels", [["contradiction", "Entailment", "neutral"], ["score"]])
    def test_the_probability_is_that_of_transformers_by_hand(self, tmp_path, labels):
        model, tokenizer = save_classifier(tmp_path / "nli", labels), tiny_models.bert_tokenizer()
        expected = []
        for premise, hypothesis in zip(PREMISES, HYPOTHESES, strict=True):
            logits = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0].detach().double()
            expected.append(float(logits.sigmoid()[0] if len(labels) == 1 else logits.softmax(0)[1]))
        judge = ClassifierJudge(tmp_path / "nli", batch_size=2, progress=False, device="cpu")
        np.testing.assert_allclose(judge.score(PREMISES, None, HYPOTHESES), expected, atol=1e-6)
        assert judge.facts["model"] == "nli"
        assert judge.facts["looks_at"] == "captions"
        assert "training data is not recorded" in judge.facts["cautions"][0]

    def test_premises_are_cut_before_hypotheses(self, tmp_path):
        save_classifier(tmp_path / "nli", ["entailment", "not_entailment"])
        judge = ClassifierJudge(tmp_path / "nli", progress=False, device="cpu")
        with pytest.warns(UserWarning, match="1 of 2 pairs are longer than the context of nli"):
            judge.score(["a dog " * 30, "a dog"], None, ["the cat", "the cat"])

    def test_labels_without_a_meaning_and_missing_heads_are_refused(self, tmp_path):
        save_classifier(tmp_path / "plain", ["LABEL_0", "LABEL_1"])
        with pytest.raises(ModelError, match="its labels are LABEL_0, LABEL_1, so which one means entailment"):
            ClassifierJudge(tmp_path / "plain")
        model = save_classifier(tmp_path / "nli", ["entailment", "neutral"])
        weights = {name: value for name, value in model.state_dict().items() if not name.startswith("classifier")}
        model.save_pretrained(tmp_path / "nli", state_dict=weights)
        with pytest.raises(CheckpointMismatch, match=r"lacks 2 weights of BertForSequenceClassification"):
            ClassifierJudge(tmp_path / "nli", progress=False).score(["a"], None, ["a"])


class TestVisionLanguage:
    @pytest.mark.parametrize("kind", ["llava", "qwen", "smolvlm", "paligemma"])
    def test_p_yes_is_that_of_one_pair_at_a_time_by_hand(self, tmp_path, kind):
        model, processor = getattr(tiny_vision_language, kind)()
        files = [path for _, path in tiny_models.picture_files(tmp_path, 2)]
        images, captions = [files[0], files[1], files[0]], ["a dog", "the man with a cat and a dog", "a cat"]
        answerer = VisionLanguage(model, processor, "tiny")
        expected = []
        for image, caption in zip(images, captions, strict=True):
            prompt = answerer.prompt("", caption)
            assert f'Caption: "{caption}" Answer' in prompt
            assert prompt.endswith("Assistant :") or kind == "paligemma"
            with Image.open(image) as picture, torch.inference_mode():
                with warnings.catch_warnings(action="ignore"):
                    inputs = processor(text=[prompt], images=[[picture.convert("RGB")]], return_tensors="pt")
                inputs.pop("labels", None)
                shares = model(**inputs).logits[0, -1].double().softmax(0)
            yes, no = (sum(float(shares[place]) for place in places) for places in tiny_vision_language.SPELLINGS)
            expected.append(yes / (yes + no))
        assert np.ptp(expected) > 1e-3
        judge = ClassifierJudge(answerer, tmp_path, batch_size=3, progress=False)
        np.testing.assert_allclose(judge.score([""] * 3, images, captions), expected, atol=1e-5)
        assert judge.facts["looks_at"] == "captions and image"

    def test_another_question_is_another_cache(self):
        model, processor = tiny_vision_language.llava()
        questions = ["Is {caption} there?", "{captions} Is {caption} there?"]
        judges = [VisionLanguage(model, processor, "tiny", question) for question in questions]
        assert judges[0].fingerprint != judges[1].fingerprint
        assert "a man" in judges[1].prompt("a man", "a dog")
        with pytest.raises(InvalidOption, match="write {caption} once"):
            VisionLanguage(model, processor, "tiny", "Is it?")

    def test_all_spellings_count_and_longer_words_do_not(self):
        words = tiny_vision_language.tokenizer()
        assert (spellings(words, "yes", "x"), spellings(words, "no", "x")) == tiny_vision_language.SPELLINGS
        with pytest.raises(ModelError, match="no token for 'maybe'"):
            spellings(words, "maybe", "x")

    def test_it_is_recognised_by_its_config(self, tmp_path):
        model, processor = tiny_vision_language.llava()
        tiny_models.save((model, processor), tmp_path / "llava")
        with pytest.raises(InvalidOption, match="llava looks at images: give their folder"):
            ClassifierJudge(tmp_path / "llava")
        files = [path for _, path in tiny_models.picture_files(tmp_path, 1)]
        judge = ClassifierJudge(tmp_path / "llava", tmp_path, question="Is {caption} there?", progress=False)
        direct = VisionLanguage(model, processor, "tiny", "Is {caption} there?").score_and_count([""], files, ["a dog"])
        np.testing.assert_allclose(judge.score([""], files, ["a dog"]), direct[0], atol=1e-6)


def test_other_models_and_options_are_refused_before_weights_are_loaded(tmp_path):
    bert, tokenizer, _ = tiny_models.bert()
    tiny_models.save((bert, tokenizer), tmp_path / "bert")
    with pytest.raises(ModelError, match="bert is a model of type bert, not a classifier of entailment. What can judg"):
        announce(tmp_path / "bert")
    save_classifier(tmp_path / "nli", ["entailment", "neutral"])
    with pytest.raises(InvalidOption, match="which takes no option, not question"):
        announce(tmp_path / "nli", question="Is it?")
    for kind in kinds().values():
        assert kind.title
