"""An endpoint that speaks the OpenAI protocol: a served model, which answers a question with yes or no."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import mimetypes
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from random import random
from threading import Event, Lock
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, InvalidOption, ModelError, WriteFailed
from cxc_eccv.studies.entailment.answerer import OF_CAPTIONS, OF_IMAGE, Announced, Answerer, Kind, check_question, fill
from cxc_eccv.types import check_whole
from cxc_eccv.writing import explained, refuse_unwritable

KEY = "CXC_ECCV_ENDPOINT_KEY"
"""Environment variable with the key; without it, hosts of Hugging Face get the Hub's token, and others none."""

HOSTS_OF_HUB = (".huggingface.co", ".huggingface.cloud", ".hf.space")

TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
TIMEOUT = 120.0
TOP = 5
"""Log-probabilities asked for, the most that all servers give."""

SPELLED = re.compile(r"\W*(yes|no)\W*", re.IGNORECASE)
WITHIN = re.compile(r"\b(yes|no)\b", re.IGNORECASE)

Answer = str | list[list[tuple[str, float]]]
"""The text of an answer, or the likeliest tokens of each place with their log-probabilities."""


class Endpoint(Answerer):
    """A served model, asked with several requests at once.

    Args:
        address: ``URL#MODEL``, such as ``http://localhost:8000/v1#Qwen/Qwen2.5-VL-7B-Instruct``.
        question: text with ``{caption}`` and perhaps ``{captions}``; None for the usual one.
        has_visual: send the image.
        repeats: number of answers a pair, drawn at temperature 1, whose share of "yes" is the probability; None for the
            log-probabilities of one answer, as in a vision-language model here.
        requests: the most requests of one process, retries included.
        workers: requests at once.
        name: name in files and reports; None for MODEL.
    """

    pairs_at_once = 256

    def __init__(
        self,
        address: str,
        *,
        question: str | None = None,
        has_visual: bool = False,
        repeats: int | None = None,
        requests: int = 10_000,
        workers: int = 8,
        name: str | None = None,
    ) -> None:
        self.url, self.served = _parts_of(address)
        self.question, self.has_visual = question or (OF_IMAGE if has_visual else OF_CAPTIONS), has_visual
        check_question(self.question)
        self.reads_captions = "{captions}" in self.question
        if not has_visual and not self.reads_captions:
            raise InvalidOption(
                f"question {self.question!r:.200}: write {{captions}} for the captions of the image, or give the "
                "images (--images), else the model sees nothing of the image"
            )
        for option, value in {"requests": requests, "workers": workers, "repeats": repeats or 1}.items():
            check_whole(option, value)
        self.name, self.repeats, self._left, self._workers = name or self.served, repeats, requests, workers
        self._lock, self._stop = Lock(), Event()
        self._failure: CxcEccvError | None = None

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Hex sha256 over address, model, question and how the probability is read; weights are the server's."""
        how = f"first word of the top {TOP}" if self.repeats is None else f"{self.repeats} answers at temperature 1"
        return hashlib.sha256(
            json.dumps([self.url, self.served, self.question, how, self.has_visual]).encode()
        ).hexdigest()

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - of huggingface_hub
        from huggingface_hub import InferenceClient

        is_hub = f".{urlsplit(self.url).hostname}".endswith(HOSTS_OF_HUB)
        key = os.environ.get(KEY) or (None if is_hub else "none")  # without one, the client would send the Hub's token
        return InferenceClient(base_url=self.url, api_key=key, timeout=TIMEOUT)

    @cached_property
    def _journal(self) -> _Journal:
        return _Journal(self.answers_folder)

    def score_and_count(
        self,
        premises: Sequence[str],
        images: Sequence[Any] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> tuple[NDArray[np.float64], int]:
        """(P,) probabilities of pairs, none of which is cut. Every answer is saved when it comes, and asked for once.

        Raises:
            ModelError: the endpoint fails for good, the budget of requests is spent, or some answers say neither yes
                nor no.
            WriteFailed: answers cannot be saved.
        """
        self.refuse_gaps(premises, images, hypotheses)
        files = [None] * len(premises) if images is None else images
        self._failure = None
        self._stop.clear()
        pool = ThreadPoolExecutor(self._workers)
        try:
            asked = [pool.submit(self._ask, *pair) for pair in zip(premises, files, hypotheses, strict=True)]
            for future in as_completed(asked):
                future.result()
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
        answers = [future.result() for future in asked]
        probabilities = [self._read(each) for each in answers]
        unclear = [each for each, probability in zip(answers, probabilities, strict=True) if probability is None]
        if unclear:
            raise ModelError(
                f"{self.name} answers {len(unclear):,} of {len(premises):,} pairs with neither yes nor no, the first "
                f"with {json.dumps(unclear[0], ensure_ascii=False):.200}. Word the question differently, or set repeats"
            )
        return np.array(probabilities, dtype=np.float64), 0

    def _ask(self, premise: str, image: Path | None, hypothesis: str) -> list[Answer]:
        """The answer about a pair, or all repeated ones."""
        prompt = fill(self.question, premise, hypothesis)
        content: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
        if image is not None and self.has_visual:
            content.insert(0, {"type": "image_url", "image_url": {"url": _data_url(image)}})
        if self.repeats is None:
            return [
                self._request(content, {"logprobs": True, "top_logprobs": TOP, "temperature": 0.0, "max_tokens": 4})
            ]
        drawn = [{"temperature": 1.0, "max_tokens": 16, "seed": seed} for seed in range(self.repeats)]
        return [self._request(content, how) for how in drawn]

    def _read(self, answers: Sequence[Any]) -> float | None:
        """The probability that answers stand for; None if they say neither yes nor no."""
        if self.repeats is None:
            return _probability_of(answers[0])
        verdicts = [match[1].lower() == "yes" for match in map(WITHIN.search, answers) if match]
        return float(np.mean(verdicts)) if verdicts else None

    def _request(self, content: list[dict[str, Any]], how: Mapping[str, Any]) -> Answer:
        """The saved answer to a request; without one, it is sent and the answer saved."""
        request = blake2b(json.dumps([content, how]).encode(), digest_size=16).hexdigest()
        answer = self._journal.answers.get(request)
        if answer is None:
            try:
                refuse_unwritable(self._journal.path, file=True)  # before it is paid for
                answer = self._send([{"role": "user", "content": content}], how)
                self._journal.add(request, content[-1]["text"], answer)
            except WriteFailed as failure:
                raise self._end(failure) from None
        return answer

    def _send(self, messages: list[Any], how: Mapping[str, Any]) -> Answer:
        """The answer of the endpoint, after as many tries as it takes."""
        read = _tops_of if "logprobs" in how else _text_of
        for attempt in range(TRIES):
            self._spend()
            try:
                return read(self._client.chat_completion(messages, model=self.served, **how))
            except ModelError as error:
                raise self._end(error) from None
            except Exception as error:  # the libraries raise anything on answers of another form
                status = getattr(getattr(error, "response", None), "status_code", None)
                if attempt + 1 == TRIES or (status is not None and status < 500 and status not in (408, 425, 429)):
                    raise self._end(ModelError(f"{self.url}: {self._explain(error, attempt + 1)}")) from None
                wait = _wait_of(error) or min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * (1 + random() / 4)  # noqa: S311 - no secret
                self._stop.wait(wait)
        raise AssertionError

    def _spend(self) -> None:
        with self._lock:
            if self._stop.is_set():
                raise self._failure or ModelError("interrupted")
            if self._left:
                self._left -= 1
                return
        raise self._end(
            ModelError("the budget of requests is spent. Answers are kept: run again to continue, or raise requests")
        )

    def _end(self, failure: CxcEccvError) -> CxcEccvError:
        """The first failure, after which nothing more is sent."""
        with self._lock:
            self._failure = self._failure or failure
            self._stop.set()
        return self._failure

    def _explain(self, error: Exception, tries: int) -> str:
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.300}"
        reason = reason.replace(os.environ.get(KEY) or "\0", "***")
        times = f" after {tries} tries" if tries > 1 else ""
        return f"{reason}{times}. Check address, model and key ({KEY}); the answers before are kept"


class _Journal:
    """The answers of an endpoint, a line each: every process appends to a file, and reads all files once."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Any] = {}
        self.path, self._lock = folder / f"{uuid4().hex}.jsonl", Lock()
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines() if path.is_file() else ():
                with suppress(ValueError, KeyError, TypeError):  # cut off when the process was killed
                    row = json.loads(line)
                    self.answers[row["request"]] = row["answer"]

    def add(self, request: str, prompt: str, answer: Answer) -> None:
        """Save an answer before it is used."""
        row = {"request": request, "prompt": prompt, "answer": answer}
        with self._lock, explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" + json.dumps(row, ensure_ascii=False))  # not behind a line that was cut off
            self.answers[request] = answer


def _parts_of(address: str) -> tuple[str, str]:
    """URL and model of an address; InvalidOption, which shows no secret, if it has none or holds a key."""
    parts = urlsplit(address)
    place = f"{parts.scheme}://{parts.hostname}"
    if parts.username or parts.password or parts.query:
        raise InvalidOption(f"{place}...: keys in an address end up in files; put the key into {KEY}")
    if not parts.hostname or not parts.fragment:
        raise InvalidOption(f"{place}...: name the model after the address, as in http://localhost:8000/v1#MODEL")
    return address.partition("#")[0].rstrip("/"), parts.fragment


def _data_url(image: Path) -> str:
    kind = mimetypes.guess_type(image.name)[0] or "image/jpeg"
    return f"data:{kind};base64,{base64.b64encode(image.read_bytes()).decode()}"


def _wait_of(error: Exception) -> float | None:
    """The seconds that a server asks to wait, at most a minute."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return min(LONGEST_WAIT, max(0.0, float(headers["retry-after"])))
    except (KeyError, ValueError):
        return None


def _text_of(completion: Any) -> str:  # noqa: ANN401 - of huggingface_hub
    return str(completion.choices[0].message.content)


def _tops_of(completion: Any) -> list[list[tuple[str, float]]]:  # noqa: ANN401 - of huggingface_hub
    """The likeliest tokens of each place with their log-probabilities."""
    choice = completion.choices[0]
    places = [place.top_logprobs or () for place in choice.logprobs.content or ()] if choice.logprobs else []
    if not any(places):
        raise ModelError("the endpoint gives no log-probabilities; set repeats, such as 5, to ask several times")
    return [[(str(top.token), float(top.logprob)) for top in place] for place in places]


def _probability_of(tops: Sequence[Sequence[tuple[str, float]]]) -> float | None:
    """P(yes) / (P(yes) + P(no)) in the first place whose likeliest token is not blank, over all spellings.

    None if neither is there, or if one is not among the likeliest tokens and the other is not the likeliest.

    Example:
        >>> round(_probability_of([[("Yes", math.log(0.6)), (" no", math.log(0.2)), ("A", math.log(0.1))]]), 3)
        0.75
    """
    for place in tops:
        likeliest = max(place, key=lambda top: top[1])[0] if place else ""
        if not re.search(r"\w", likeliest):
            continue
        shares = {"yes": 0.0, "no": 0.0}
        for token, log_probability in place:
            match = SPELLED.fullmatch(token)
            if match:
                shares[match[1].lower()] += math.exp(log_probability)
        is_known = all(shares.values()) or SPELLED.fullmatch(likeliest)
        return shares["yes"] / sum(shares.values()) if is_known else None
    return None


def announce(
    source: str,
    *,
    images: bool,
    device: str | None,
    name: str | None,
    **options: Any,  # noqa: ANN401 - of Endpoint
) -> Announced:
    """Check address and options; nothing is asked yet."""
    endpoint = Endpoint(source, has_visual=images, name=name, **options)
    return Announced(endpoint.name, lambda: endpoint, has_visual=images)


ENDPOINT = Kind(
    "URL#MODEL of an endpoint that speaks the OpenAI protocol",
    lambda source, _: source.startswith(("http://", "https://")),
    announce,
    ("question", "repeats", "requests", "workers"),
)
