"""Kinds of judges: models of the Hub, endpoints, and how a name stands for one of them."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny_models
from chat_server import chat_server, completion
from command_line import run_command
from PIL import Image
from tokenizers.processors import TemplateProcessing

import cxc_eccv as ce
from cxc_eccv.cli.user_tables import policy
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.runs import load_run, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.studies.entailment.judge import ClassifierJudge

torch = pytest.importorskip("torch", reason="torch is not installed")
import tiny_vision_language  # noqa: E402
import transformers  # noqa: E402

from cxc_eccv.studies.entailment.answerer import OF_IMAGE  # noqa: E402
from cxc_eccv.studies.entailment.answering import announce  # noqa: E402
from cxc_eccv.studies.entailment.answering.hub_models import (  # noqa: E402
    TextClassifier,
    VisionLanguage,
    spellings,
)

PREMISES = ["a dog on the street", "the woman with a red ball", "two cat and a man in the bus"]
HYPOTHESES = ["a dog", "a man rides the bus", "the cat"]


SAMPLE = ("--data-dir", "sample")


def save_classifier(folder, labels, problem_type=None):
    config = tiny_models.bert_config()
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.problem_type = problem_type
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

    @pytest.mark.parametrize("kind", ["Bert", "XLNet"])
    def test_the_side_of_padding_changes_no_answer(self, kind):
        """BERT numbers places from the left; XLNet has no limit of them and reads the last."""
        tokenizer = tiny_models.bert_tokenizer()
        sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 16}
        sizes = tiny_models.bert_config().to_dict() if kind == "Bert" else sizes | {"vocab_size": len(tokenizer)}
        config = getattr(transformers, f"{kind}Config")(**sizes)
        model = tiny_models.seeded(lambda: getattr(transformers, f"{kind}ForSequenceClassification")(config))
        pairs = PREMISES, None, HYPOTHESES
        each = [
            TextClassifier(model, tokenizer, kind, 1).score_and_count([premise], None, [text], progress=False)[0][0]
            for premise, text in zip(PREMISES, HYPOTHESES, strict=True)
        ]
        assert np.ptp(each) > 1e-3
        for side in ("left", "right"):
            tokenizer.padding_side = side
            scores = TextClassifier(model, tokenizer, kind, 1).score_and_count(*pairs, progress=False)[0]
            np.testing.assert_allclose(scores, each, atol=1e-6)

    def test_premises_are_cut_before_hypotheses(self, tmp_path):
        save_classifier(tmp_path / "nli", ["entailment", "not_entailment"])
        judge = ClassifierJudge(tmp_path / "nli", progress=False, device="cpu")
        with pytest.warns(UserWarning, match="1 of 2 pairs are longer than the context of nli"):
            judge.score(["a dog " * 30, "a dog"], None, ["the cat", "the cat"])

    def test_labels_without_a_meaning_and_missing_heads_are_refused(self, tmp_path):
        save_classifier(tmp_path / "plain", ["LABEL_0", "LABEL_1"])
        with pytest.raises(ModelError, match="its labels are LABEL_0, LABEL_1, so which one means entailment"):
            ClassifierJudge(tmp_path / "plain")
        save_classifier(tmp_path / "rated", ["score"], problem_type="regression")
        with pytest.raises(ModelError, match="rated: its output is the value of a regression"):
            ClassifierJudge(tmp_path / "rated")
        model = save_classifier(tmp_path / "nli", ["entailment", "neutral"])
        weights = {name: value for name, value in model.state_dict().items() if not name.startswith("classifier")}
        model.save_pretrained(tmp_path / "nli", state_dict=weights)
        with pytest.raises(CheckpointMismatch, match=r"lacks 2 weights of BertForSequenceClassification"):
            ClassifierJudge(tmp_path / "nli", progress=False).score(["a"], None, ["a"])


class PadsOnTheLeft(transformers.LlavaProcessor):
    """As that of Fuyu, whatever is asked for; those of InternVL and Llama 4 do so by default."""

    def __call__(self, *arguments, padding_side=None, **options):
        return super().__call__(*arguments, padding_side="left", **options)


class TestVisionLanguage:
    @pytest.mark.parametrize("kind", ["llava", "qwen", "smolvlm", "paligemma", "blip2"])
    def test_p_yes_is_that_of_one_pair_at_a_time_by_hand(self, tmp_path, kind):
        model, processor = getattr(tiny_vision_language, kind)()
        files = [path for _, path in tiny_models.picture_files(tmp_path, 2)]
        images, captions = [files[0], files[1], files[0]], ["a dog", "the man with a cat and a dog", "a cat"]
        answerer = VisionLanguage(model, processor, "tiny")
        expected = []
        for image, caption in zip(images, captions, strict=True):
            prompt = answerer.prompt("", caption)
            assert f'Caption: "{caption}" Answer' in prompt
            assert prompt.endswith("Assistant :") or kind in ("paligemma", "blip2")
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
        assert judge.facts["looks_at"] == "image"

    @pytest.mark.parametrize("odd", ["a template that writes the first token", "padding on the left"])
    def test_p_yes_is_that_of_the_prompt_that_transformers_makes(self, tmp_path, odd):
        model, processor = tiny_vision_language.llava()
        if odd == "padding on the left":
            processor.__class__ = PadsOnTheLeft
        else:
            processor.chat_template = "{{ bos_token }}" + processor.chat_template
            first = TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 2)])
            processor.tokenizer.backend_tokenizer.post_processor = first
        files = [path for _, path in tiny_models.picture_files(tmp_path, 2)]
        captions, expected = ["a dog", "the man with a cat and a dog"], []
        for image, caption in zip(files, captions, strict=True):
            text = {"type": "text", "text": OF_IMAGE.format(caption=caption)}
            asked = [{"role": "user", "content": [{"type": "image", "path": str(image)}, text]}]
            how = {"tokenize": True, "return_dict": True, "return_tensors": "pt", "add_generation_prompt": True}
            with torch.inference_mode():
                shares = model(**processor.apply_chat_template(asked, **how)).logits[0, -1].double().softmax(0)
            yes, no = (float(shares[places].sum()) for places in tiny_vision_language.SPELLINGS)
            expected.append(yes / (yes + no))
        scores = VisionLanguage(model, processor, "tiny").score_and_count([""] * 2, files, captions, progress=False)[0]
        np.testing.assert_allclose(scores, expected, atol=1e-5)

    def test_a_model_that_gives_all_logits_gives_the_same_answers(self, tmp_path):
        model, processor = tiny_vision_language.llava()
        files = [path for _, path in tiny_models.picture_files(tmp_path, 2)]
        pairs, forward = (["", ""], files, ["a dog", "the man with a cat"]), model.forward
        expected = VisionLanguage(model, processor, "tiny").score_and_count(*pairs)[0]
        model.forward = lambda logits_to_keep, **inputs: forward(**inputs)
        np.testing.assert_allclose(VisionLanguage(model, processor, "tiny").score_and_count(*pairs)[0], expected)
        model.forward = lambda logits_to_keep, **inputs: SimpleNamespace(logits=forward(**inputs).logits[:, :7])
        with pytest.raises(ModelError, match="other places than its prompts"):
            VisionLanguage(model, processor, "tiny").score_and_count(*pairs)

    def test_another_question_is_another_cache(self):
        model, processor = tiny_vision_language.llava()
        questions = ["Is {caption} there?", "{captions} Is {caption} there?"]
        judges = [VisionLanguage(model, processor, "tiny", question) for question in questions]
        assert judges[0].fingerprint != judges[1].fingerprint
        assert "a man" in judges[1].prompt("a man", "a dog")
        with pytest.raises(InvalidOption, match=r"write \{caption\} once"):
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
    with pytest.raises(ModelError, match=r"bert is a model of type bert, not a classifier of entailment\. What can"):
        announce(tmp_path / "bert")
    save_classifier(tmp_path / "nli", ["entailment", "neutral"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="empty"):
        announce(tmp_path / "empty")
    with pytest.raises(InvalidOption, match="which takes no option, not question"):
        announce(tmp_path / "nli", question="Is it?")


class TestReranking:
    @pytest.fixture
    def first(self, sample_library, make_run, tmp_path):
        save_embeddings(tmp_path / "first.npz", make_run(sample_library))
        return tmp_path / "first.npz"

    @pytest.mark.thorough
    def test_a_judge_orders_the_top_of_both_directions(self, first, sample_library, tmp_path):
        tiny_models.save(tiny_vision_language.llava(), tmp_path / "llava")
        images = mirror_folder("sample") / "coco" / "images"
        options = ("--images", images, "--rerank", first, "--top-k", "2", "--output", tmp_path / "top.parquet")
        printed, _ = run_command("encode", "--model", tmp_path / "llava", *options, *SAMPLE)
        assert "the top 2 of first.npz, ranked again" in printed
        run, before = load_run(tmp_path / "top.parquet"), load_run(first)
        judge = ClassifierJudge(tmp_path / "llava", images, progress=False).on(sample_library, "test")
        images, captions = (side.vectors.astype(np.float64) for side in (before.images, before.captions))
        cosines = images @ captions.T / np.linalg.norm(images, axis=1)[:, None] / np.linalg.norm(captions, axis=1)
        for direction, scores, ids in (("i2t", cosines, before.captions.ids), ("t2i", cosines.T, before.images.ids)):
            lists, queries = run.lists[direction], (before.images if direction == "i2t" else before.captions).ids
            for row in range(0, lists.query_ids.size, 7):
                query, ranked = lists.query_ids[row], lists.items[lists.indptr[row] : lists.indptr[row + 1]]
                place = np.flatnonzero(queries == query)[0]
                assert set(ranked) == set(ids[np.argsort(-scores[place])[:2]])
                pair = (np.full(2, query), ranked) if direction == "i2t" else (ranked, np.full(2, query))
                assert (np.diff(judge.probabilities(*pair)) <= 0).all()
        assert json.loads((tmp_path / "top.encoding.json").read_text())["looks_at"] == "image"

    def test_a_judge_that_reads_the_captions_is_refused(self, first, tmp_path):
        save_classifier(tmp_path / "nli", ["entailment", "neutral"])
        options = ("--rerank", first, "--output", tmp_path / "top.parquet")
        _, errors = run_command("encode", "--model", tmp_path / "nli", *options, *SAMPLE, status=2)
        assert "reads the captions of an image, and a re-ranking must find these" in " ".join(errors.split())


@pytest.mark.filterwarnings("ignore:.*pairs are longer than the context", "ignore:nli has no record of the pairs")
def test_a_model_of_inference_is_taken_wherever_a_classifier_is(tmp_path, sample_library, make_run):
    save_classifier(tmp_path / "nli", ["entailment", "neutral"])
    score = ("entailment", "score", "cxc/test", "--model", tmp_path / "nli", "--threshold", "0")
    printed, _ = run_command(*score, "--output", tmp_path / "report", *SAMPLE)
    assert "training data is not recorded" in " ".join(printed.split())
    table = pq.read_table(tmp_path / "report/probabilities.parquet")
    texts = table["premise"].to_pylist(), None, table["hypothesis"].to_pylist()
    direct = announce(tmp_path / "nli").load().score_and_count(*texts, batch_size=1, progress=False)[0]
    np.testing.assert_allclose(np.asarray(table["probability"]), direct, atol=1e-6)
    judge = policy(str(tmp_path / "nli"))
    report = ce.evaluate(make_run(sample_library), "entailment", data_dir=sample_library, unjudged=judge)
    assert report.provenance["unjudged"]["fingerprint"] == judge.facts["fingerprint"]
    save_embeddings(tmp_path / "run.npz", make_run(sample_library, split="train"))
    mine = ("mine", tmp_path / "run.npz", *SAMPLE, "--top-k", "1", "--threshold", "0.7", "--classifier")
    with chat_server(lambda _place, _body: (200, completion("Yes", {"Yes": 0.6, "No": 0.2}))) as (url, requests):
        run_command(*mine, f"{url}#served", "--output", tmp_path / "paid.parquet")
        assert pq.read_table(tmp_path / "paid.parquet").num_rows == len(requests) > 0


def test_pairs_with_gaps_get_no_number(tmp_path):
    save_classifier(tmp_path / "nli", ["entailment", "neutral"])
    nli = ClassifierJudge(tmp_path / "nli", progress=False)
    llava = ClassifierJudge(VisionLanguage(*tiny_vision_language.llava(), "llava"), tmp_path, progress=False)
    for judge, pairs, message in (
        (nli, (["a dog", " "], None, ["a", "a"]), "nli, pair 1: it has no captions, which the judge reads"),
        (nli, (["a dog"], None, [""]), "nli, pair 0: the hypothesis is empty"),
        (llava, (["a"], [None], ["a"]), "llava, pair 0: it has no image, which the judge looks at"),
    ):
        with pytest.raises(InvalidOption, match=message):
            judge.score(*pairs)
