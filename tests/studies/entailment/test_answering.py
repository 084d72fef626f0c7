"""Kinds of judges: models of the Hub, endpoints, and how a name stands for one of them."""

import numpy as np
import pytest
import tiny_models

from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.studies.entailment.judge import ClassifierJudge

torch = pytest.importorskip("torch", reason="torch is not installed")
import transformers  # noqa: E402

from cxc_eccv.studies.entailment.answering import announce, kinds  # noqa: E402

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
