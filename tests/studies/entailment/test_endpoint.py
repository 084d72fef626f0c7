"""A judge that is served: what is sent, how the probability is read, and that no answer is lost or paid twice."""

import base64
import json
import math
import signal
import socket
import subprocess
import sys
from concurrent.futures import as_completed
from itertools import islice

import numpy as np
import pytest
import tiny_models
from chat_server import chat_server, completion
from full_disk import files_of_at_most

from cxc_eccv.errors import InvalidOption, ModelError, WriteFailed
from cxc_eccv.studies.entailment.answering import endpoint as endpoints
from cxc_eccv.studies.entailment.judge import ClassifierJudge

PAIRS = [f"premise {number}" for number in range(12)], None, [f"caption {number}" for number in range(12)]
SHARES = {"Yes": 0.5, " yes": 0.1, "No": 0.2, "maybe": 0.1}
SECRET = "sk-very-secret"


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setenv(endpoints.KEY, SECRET)
    monkeypatch.setenv("HF_TOKEN", "hf_token_of_the_hub")
    monkeypatch.setattr(endpoints, "FIRST_WAIT", 0.001)


def right(_place, _body):
    return 200, completion("Yes", SHARES)


def judge_at(url, model="org/served", **options):
    return ClassifierJudge(f"{url}#{model}", progress=False, **options)


def kept(tmp_path):
    files = (tmp_path / "cache").rglob("*.jsonl")
    return [json.loads(line) for path in files for line in path.read_text().split("\n") if line]


def test_the_probability_is_that_of_all_spellings_and_every_answer_is_kept_with_its_prompt(tmp_path):
    with chat_server(right) as (url, requests):
        judge = judge_at(url)
        for _ in range(2):
            np.testing.assert_allclose(judge.score(*PAIRS), 0.6 / 0.8)
            assert len(requests) == 12
        judge_at(url, question="Does {captions} mean {caption}?").score(*PAIRS)
        judge_at(url, model="org/other").score(*PAIRS)
        assert len(requests) == 36
    body = requests[0][1]
    assert (body["model"], body["logprobs"], body["temperature"]) == ("org/served", True, 0)
    assert requests[0][0]["authorization"] == f"Bearer {SECRET}"
    rows = kept(tmp_path)
    assert {row["prompt"] for row in rows} >= {"Does premise 3 mean caption 3?"}
    assert rows[0]["answer"][0][0][0] == "Yes"
    assert len({path.parent for path in (tmp_path / "cache").rglob("*.parquet")}) == 3
    files = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert SECRET.encode() not in files
    assert SECRET not in json.dumps(dict(judge.facts))


def test_images_are_sent_as_they_are(tmp_path):
    ((_, path),) = tiny_models.picture_files(tmp_path, 1)
    with chat_server(right) as (url, requests):
        judge_at(url, images=tmp_path).score(["a dog"], [path], ["a cat"])
        content = requests[0][1]["messages"][0]["content"]
    kind, _, data = content[0]["image_url"]["url"].partition(",")
    assert (kind, base64.b64decode(data)) == ("data:image/png;base64", path.read_bytes())
    assert "a cat" in content[1]["text"]
    assert "a dog" not in content[1]["text"]


def test_repeated_answers_give_the_share_of_yes():
    def drawn(_place, body):
        return 200, completion(["Yes.", "no", "**Yes**", "I cannot say"][body.get("seed", 0)])

    with chat_server(drawn) as (url, requests):
        np.testing.assert_allclose(judge_at(url, repeats=4).score(*PAIRS), 2 / 3)
        assert len(requests) == 48
        with pytest.raises(ModelError, match="no log-probabilities; set repeats"):
            judge_at(url).score(*PAIRS)


@pytest.mark.parametrize("fault", [(429, "slow down"), (500, "oh"), (200, "{not json"), (200, {"choices": []})])
def test_passing_faults_are_tried_again(fault):
    with chat_server(lambda place, body: fault if place % 2 == 0 else right(place, body)) as (url, requests):
        np.testing.assert_allclose(judge_at(url, workers=1).score(*PAIRS), 0.75)
        assert len(requests) == 24


def test_lasting_faults_end_the_run_and_keep_what_was_answered(tmp_path):
    def refuse(place, body):
        return right(place, body) if place < 5 else (401, {"error": f"wrong key {SECRET}"})

    with chat_server(refuse) as (url, requests):
        with pytest.raises(ModelError, match=r"127.0.0.1.*Check address, model and key") as told:
            judge_at(url, workers=1).score(*PAIRS)
        assert len(requests) == 6
        assert "the answers before are kept" in str(told.value)
        assert SECRET not in str(told.value)
    assert len(kept(tmp_path)) == 5
    with socket.socket() as free:  # a port that nobody listens to
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match="after 6 tries"):
        judge_at(dead).score(*PAIRS)


def test_an_answer_that_is_neither_gives_no_number(tmp_path):
    def mumble(_place, body):
        unsure = "caption 7" in json.dumps(body)
        return 200, completion("x", {"Perhaps": 0.9, "Sure": 0.1} if unsure else SHARES)

    with chat_server(mumble) as (url, requests):
        for _ in range(2):
            with pytest.raises(ModelError, match="1 of 12 pairs with neither yes nor no"):
                judge_at(url).score(*PAIRS)
        assert len(requests) == len(kept(tmp_path)) == 12


NEWLINE = {"\n": 0.97, "No": 0.02, "Yes": 0.005}


@pytest.mark.parametrize(
    ("places", "probability"),
    [
        ([NEWLINE, {"Yes": 0.95, "No": 0.05}], 0.95),
        ([{"**": 0.9, "Yes": 0.09, "No": 0.001}, {"No": 0.95, "Yes": 0.05}], 0.05),
        ([{"Yes": 0.6, "Maybe": 0.3}], 1),
        ([{"The": 0.9, "Yes": 0.05, "It": 0.01}], None),  # "No" may be as likely as "It"
        ([NEWLINE], None),
    ],
)
def test_the_probability_is_read_where_the_answer_begins(places, probability):
    tops = [[(token, math.log(share)) for token, share in place.items()] for place in places]
    assert endpoints._probability_of(tops) == (None if probability is None else pytest.approx(probability))


def test_the_budget_counts_tries_and_the_next_run_continues(tmp_path):
    with chat_server(right) as (url, requests):
        with pytest.raises(ModelError, match=r"budget of requests is spent\. Answers are kept: run again"):
            judge_at(url, requests=5).score(*PAIRS)
        assert len(requests) == len(kept(tmp_path)) == 5
        judge_at(url).score(*PAIRS)
        assert len(requests) == 12


KILLED = """
import sys
from cxc_eccv.studies.entailment.answering.endpoint import Endpoint

premises, captions = ([f"{name} {number}" for number in range(12)] for name in ("premise", "caption"))
Endpoint(f"{sys.argv[1]}#org/served", repeats=3, workers=2).score_and_count(premises, None, captions)
"""


def test_a_killed_run_keeps_every_answer_that_came(tmp_path):
    """The endpoint kills the process with the 20th of 36 requests."""

    def kill(place, _body):
        if place == 19:
            process.kill()
        return 200, completion("yes")

    with chat_server(kill) as (url, requests):
        process = subprocess.Popen([sys.executable, "-c", KILLED, url])
        assert process.wait() == -signal.SIGKILL
        saved = len(kept(tmp_path))
        assert saved >= 18  # but for the two on their way
        before = len(requests)
        with next((tmp_path / "cache").rglob("*.jsonl")).open("a") as file:
            file.write('\n{"request": "12')
        np.testing.assert_array_equal(judge_at(url, repeats=3).score(*PAIRS), 1)
        assert len(requests) == before + 36 - saved


def test_a_full_disk_stops_before_more_is_paid(tmp_path):
    with chat_server(right) as (url, requests):
        with files_of_at_most(400), pytest.raises(WriteFailed):
            judge_at(url, workers=1).score(*PAIRS)
        saved = len(requests) - 1
        assert 0 < saved < 11
        judge_at(url).score(*PAIRS)
        assert len(requests) == 13


def test_nothing_is_asked_where_no_answer_can_be_saved(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "answers").touch()
    with chat_server(right) as (url, requests):
        with pytest.raises(WriteFailed, match="A file stands where a folder is needed"):
            judge_at(url).score(*PAIRS)
        assert not requests


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("http://localhost/v1", {}, "name the model after the address"),
        (f"http://user:{SECRET}@localhost/v1#m", {}, "keys in an address end up in files"),
        (f"http://localhost/v1?key={SECRET}#m", {}, "keys in an address end up in files"),
        ("http://localhost/v1#m", {"question": "Is {caption} good?"}, "sees nothing of the image"),
    ],
)
def test_addresses_and_questions_that_do_not_serve_are_refused(address, options, message):
    with pytest.raises(InvalidOption, match=message) as told:
        ClassifierJudge(address, **options)
    assert SECRET not in str(told.value)


def test_the_token_of_the_hub_goes_to_no_other_host(monkeypatch):
    monkeypatch.delenv(endpoints.KEY)
    with chat_server(right) as (url, requests):
        judge_at(url).score(["a"], None, ["b"])
    assert "hf_token_of_the_hub" not in json.dumps(requests)


def test_an_interrupted_run_keeps_what_is_on_its_way(tmp_path, monkeypatch):
    def interrupt(asked):
        yield from islice(as_completed(asked), 7)
        raise KeyboardInterrupt

    with chat_server(right) as (url, requests):
        with monkeypatch.context() as patched:
            patched.setattr(endpoints, "as_completed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                judge_at(url, workers=2).score(*PAIRS)
        assert 7 <= len(kept(tmp_path)) == len(requests)
        judge_at(url).score(*PAIRS)
        assert len(requests) == 12
