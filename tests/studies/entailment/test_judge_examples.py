"""The example scripts that ask a judge: the table they write, and how its probabilities are read."""

import base64
import json
import runpy
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from chat_server import chat_server, completion
from PIL import Image

import cxc_eccv as ce
from cxc_eccv.cli.user_tables import read_probabilities
from cxc_eccv.sources.download import image_folder
from cxc_eccv.studies.entailment.unjudged_pairs import list_unjudged

EXAMPLES = Path(__file__).parents[3] / "examples"
SECRET = "sk-very-secret"
TASK = "coco_5k/t2i"
METRIC = "recall_at_1"

pytestmark = pytest.mark.thorough


def example(name):
    return runpy.run_path(str(EXAMPLES / f"judge_with_{name}.py"))


@pytest.fixture
def pairs(sample_library, make_run, tmp_path):
    """A run, and the file of the pairs that it needs an answer for."""
    run = make_run(sample_library)
    pq.write_table(list_unjudged([run], sample_library, number=f"{TASK}/{METRIC}"), tmp_path / "pairs.parquet")
    return run, tmp_path / "pairs.parquet"


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    pytest.importorskip("torch", reason="torch is not installed")
    import tiny_models
    import tiny_vision_language

    folder = tmp_path_factory.mktemp("vlm") / "llava"
    model, processor = tiny_vision_language.llava()
    tiny_models.save((model, processor), folder)
    return folder, model, processor, tiny_vision_language.SPELLINGS


def test_vlm_probability_does_not_depend_on_batch(llava, pairs, tmp_path):
    """Captions of different lengths share a batch, so all but the longest prompt are padded on the left."""
    import torch

    folder, model, processor, spellings = llava
    module = example("a_vlm")
    output = tmp_path / "judge.jsonl"
    table = pq.read_table(pairs[1]).slice(0, 7)
    pq.write_table(table, pairs[1])
    images = image_folder("sample")
    command = [str(pairs[1]), "--model", str(folder), "--images", str(images), "--output", str(output)]
    module["main"]([*command, "--device", "cpu", "--batch-size", "4"])
    expected = []
    files = {path.name: path for path in Path(images).rglob("*.jpg")}
    for row in table.to_pylist():
        question = module["QUESTION"].replace("{caption}", row["caption"])
        prompt = f"User : <image> {question} Assistant :"
        inputs = processor(
            text=[prompt], images=[Image.open(files[row["file_name"]]).convert("RGB")], return_tensors="pt"
        )
        with torch.inference_mode():
            shares = model(**inputs).logits[0, -1].double().softmax(0)
        yes, no = (float(shares[places].sum()) for places in spellings)
        expected.append(yes / (yes + no))
    found = [row["probability"] for row in read(output)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(found) > 1e-3
    assert [row["caption_id"] for row in read(output)] == table["caption_id"].to_pylist()


def test_vlm_without_a_yes_token_is_refused(llava):
    judge = object.__new__(example("a_vlm")["Judge"])
    judge.processor = llava[2]
    assert (judge.spellings("yes"), judge.spellings("no")) == llava[3]
    with pytest.raises(SystemExit, match="no token for 'maybe'"):
        judge.spellings("maybe")


def test_an_api_fills_the_table_that_evaluate_reads(pairs, sample_library, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    run, path = pairs
    output = tmp_path / "judge.jsonl"
    table = pq.read_table(path)
    command = [str(path), "--model", "served", "--output", str(output)]
    shares = {"Yes": 0.5, " yes": 0.1, "No": 0.2, "maybe": 0.1}
    main = example("an_api")["main"]
    with chat_server(lambda _place, _body: (200, completion("Yes", shares))) as (url, requests):
        main([*command, "--url", url])
        assert len(requests) == table.num_rows
        output.write_text("".join(output.read_text().splitlines(keepends=True)[3:]))
        main([*command, "--url", url])
        assert len(requests) == table.num_rows + 3
    headers, body = requests[0]
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == f"Bearer {SECRET}"
    assert (body["model"], body["logprobs"], body["temperature"]) == ("served", True, 0)
    assert table["captions"][0].as_py() in body["messages"][0]["content"][0]["text"]
    assert SECRET not in output.read_text()
    assert np.unique([row["probability"] for row in read(output)]) == pytest.approx(0.75)
    options = {"data_dir": sample_library, "bounds": True, "judge": read_probabilities(output)}
    (result,) = ce.evaluate(run, TASK, metrics=[METRIC], **options).results
    assert result.value < result.bounds.expected < result.bounds.high


def test_an_api_gets_the_images_as_they_are(pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    table = pq.read_table(pairs[1]).slice(0, 1)
    pq.write_table(table, pairs[1])
    images = Path(image_folder("sample"))
    with chat_server(lambda _place, _body: (200, completion("No", {"No": 0.9, "Yes": 0.1}))) as (url, requests):
        output = tmp_path / "judge.jsonl"
        arguments = [str(pairs[1]), "--model", "m", "--url", url, "--images", str(images), "--output", str(output)]
        example("an_api")["main"](arguments)
    image, text = requests[0][1]["messages"][0]["content"]
    kind, _, data = image["image_url"]["url"].partition(",")
    (path,) = images.rglob(table["file_name"][0].as_py())
    assert (kind, base64.b64decode(data)) == ("data:image/jpeg;base64", path.read_bytes())
    assert table["captions"][0].as_py() not in text["text"]
    assert read(output)[0]["probability"] == pytest.approx(0.1)


def test_an_answer_that_is_neither_is_left_out(pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    table = pq.read_table(pairs[1]).slice(0, 5)
    pq.write_table(table, pairs[1])
    unclear = table["caption"][2].as_py()

    def answer(_place, body):
        return 200, completion("x", {"Sure": 1.0} if f'"{unclear}"' in str(body) else {"Yes": 0.6, "No": 0.4})

    output = tmp_path / "judge.jsonl"
    main = example("an_api")["main"]
    command = [str(pairs[1]), "--model", "m", "--output", str(output), "--url"]
    with chat_server(answer) as (url, _), pytest.raises(SystemExit, match="of 5 pairs got an answer that is neither"):
        main([*command, url])
    assert 0 < len(read(output)) < 5
    with chat_server(lambda *_: (200, completion("yes"))) as (url, _), pytest.raises(SystemExit, match="no log-prob"):
        main([*command, url])


@pytest.mark.parametrize(
    ("places", "probability"),
    [
        ([{"\n": 0.97, "No": 0.02}, {"Yes": 0.95, "No": 0.05}], 0.95),
        ([{"**": 0.9, "Yes": 0.09, "No": 0.001}, {"No": 0.95, "Yes": 0.05}], 0.05),
        ([{"Yes": 0.6, "Maybe": 0.3}], 1),
        ([{"The": 0.9, "Yes": 0.05, "It": 0.01}], None),  # "No" may be as likely as "It"
        ([{"\n": 0.97}], None),
    ],
)
def test_the_probability_is_read_where_the_answer_begins(places, probability):
    class Top:
        def __init__(self, token, share):
            self.token = token
            self.logprob = np.log(share)

    tops = [[Top(*item) for item in place.items()] for place in places]
    expected = None if probability is None else pytest.approx(probability)
    assert example("an_api")["read_probability"](tops) == expected
