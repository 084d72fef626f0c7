"""Summaries of captions by tiny random T5 and Pegasus: batched, kept as they are made, and searched."""

import json

import pytest
from full_disk import files_of_at_most

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install '.[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

from cxc_eccv.errors import InvalidOption, MalformedRun, ModelError  # noqa: E402 - after the skip
from cxc_eccv.studies.explain.summaries import Summarizer, load_summarizer, summarize  # noqa: E402
from cxc_eccv.writing import locked  # noqa: E402

pytestmark = pytest.mark.thorough

TEXTS = [(7, 0, "a dog. a cat."), (8, 0, "the man rides the bus on the street."), (9, 0, "a woman with a red ball.")]


def t5():
    told = {"summarization": {"prefix": "summarize: ", "max_length": 9, "num_beams": 2}}
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "task_specific_params": told}
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3}
    config = transformers.T5Config(vocab_size=len(tiny_models.WORDS), **sizes, **ends)
    return tiny_models.seeded(lambda: transformers.T5ForConditionalGeneration(config))


def pegasus():
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    sizes |= {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 12}
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3}
    config = transformers.PegasusConfig(vocab_size=len(tiny_models.WORDS), **sizes, **ends)
    return tiny_models.seeded(lambda: transformers.PegasusForConditionalGeneration(config))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of both models with a tokenizer of words, and of a model that writes nothing."""
    folder = tmp_path_factory.mktemp("summarizers")
    for make in (t5, pegasus):
        make().save_pretrained(folder / make.__name__)
        tiny_models.bert_tokenizer().save_pretrained(folder / make.__name__)
    tiny_models.save(tiny_models.bert(), folder / "bert")
    return folder


@pytest.mark.parametrize("name", ["t5", "pegasus"])
def test_a_summary_is_what_the_model_generates(name, saved, tmp_path):
    summarizer = load_summarizer(str(saved / name), device="cpu")
    assert summarizer.prefix == ("summarize: " if name == "t5" else "")
    made = summarize(summarizer, TEXTS, tmp_path / "made.jsonl", batch_size=2)
    kind = transformers.AutoModelForSeq2SeqLM.from_pretrained(saved / name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved / name)
    settings = {"max_length": 9, "num_beams": 2} if name == "t5" else {"max_new_tokens": 11}
    assert summarizer.settings == settings
    for (_, _, text), summary in zip(TEXTS, made, strict=True):
        tokens = tokenizer(
            summarizer.prefix + text, return_tensors="pt", truncation=True, max_length=12 if name == "pegasus" else 24
        )
        tokens.pop("token_type_ids", None)
        own = kind.generate(**tokens, **settings, do_sample=False)
        assert summary == tokenizer.decode(own[0], skip_special_tokens=True)
    rows = [json.loads(line) for line in (tmp_path / "made.jsonl").read_text().splitlines()]
    assert {(row["image_id"], row["query_position"]): row["summary"] for row in rows} == {
        text[:2]: summary for text, summary in zip(TEXTS, made, strict=True)
    }


def test_a_killed_call_goes_on_where_it_was(saved, tmp_path, monkeypatch):
    summarizer = load_summarizer(str(saved / "t5"), device="cpu")
    asked = []
    write = Summarizer.write

    def write_once(self, texts):
        asked.extend(texts)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return write(self, texts)

    whole = summarize(summarizer, TEXTS, tmp_path / "whole.jsonl", batch_size=1)
    file = tmp_path / "cut.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(Summarizer, "write", write_once)
        with pytest.raises(KeyboardInterrupt) as died:
            summarize(summarizer, TEXTS, file, batch_size=1)
    assert f"are kept in {file}; the same command continues" in died.value.__notes__[0]
    with file.open("a") as cut:
        cut.write('{"image_id": 8, "summ')  # the process died within a line
    asked.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Summarizer, "write", lambda self, texts: asked.extend(texts) or write(self, texts))
        assert summarize(summarizer, TEXTS, file, batch_size=1) == whole
    assert len(asked) == len(TEXTS) - 1
    assert sorted(file.read_text().splitlines()) == sorted((tmp_path / "whole.jsonl").read_text().splitlines())
    monkeypatch.setattr(Summarizer, "write", None)
    assert summarize(summarizer, TEXTS, file) == whole  # all are there


def test_full_disk_names_the_file_of_summaries(saved, tmp_path):
    file = tmp_path / "made.jsonl"
    summarizer = load_summarizer(str(saved / "t5"), device="cpu")
    with files_of_at_most(10), pytest.raises(OSError, match=rf"File too large: '{file}'"):
        summarize(summarizer, TEXTS, file)
    assert len(summarize(summarizer, TEXTS, file)) == len(TEXTS)


def test_locked_cache_is_not_needed(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    summarizer = load_summarizer(str(saved / "t5"), device="cpu")
    whole = summarize(summarizer, TEXTS)
    (file,) = (tmp_path / "cache/encodings").iterdir()
    file.unlink()
    with locked(file):
        assert summarize(summarizer, TEXTS) == whole
    assert not file.exists()


def test_what_cannot_be_summarised_or_kept(saved, tmp_path):
    with pytest.raises(ModelError, match="is a BertModel, which writes no summaries; choose a sequence"):
        load_summarizer(str(saved / "bert"), device="cpu")
    with pytest.raises(ModelError, match="no model found"):
        load_summarizer(str(tmp_path / "absent"), device="cpu")
    file = tmp_path / "made.jsonl"
    summarize(load_summarizer(str(saved / "t5"), device="cpu"), TEXTS, file)
    with pytest.raises(InvalidOption, match=r"summaries of other captions, or by another model than .*pegasus"):
        summarize(load_summarizer(str(saved / "pegasus"), device="cpu"), TEXTS, file)
    file.write_text('{"summary": "a dog"}\n')
    with pytest.raises(MalformedRun, match="line 1 has no source and summary"):
        summarize(load_summarizer(str(saved / "t5"), device="cpu"), TEXTS, file)


def test_the_command_summarises_or_reads_summaries(command, saved, tmp_path):
    file = tmp_path / "t5.jsonl"
    words = ("query-corpus", "--model", saved / "bert", "--summaries", file, "--output")
    status, _, said = command(*words, tmp_path / "made", "--summarizer", saved / "t5")
    assert status == 0, said
    assert len(file.read_text().splitlines()) == 60
    made = json.loads((tmp_path / "made" / "query_corpus.json").read_text())
    assert made["provenance"]["summaries"]["prefix"] == "summarize: "
    assert made["provenance"]["corpus"] == "a summary of their other captions"
    assert command(*words, tmp_path / "read")[0] == 0
    read = json.loads((tmp_path / "read" / "query_corpus.json").read_text())
    assert read["scores"] == made["scores"]
    assert read["provenance"]["summaries"]["file"] == "t5.jsonl"
    status, _, said = command(*words, tmp_path / "all", "--query-position", 1)
    assert status == 2
    assert "60 of 60 images have no summary for the query at position 1" in said
