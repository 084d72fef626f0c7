"""Ask a served model about pairs without a label, by an API that speaks the protocol of OpenAI.

    cxc-eccv entailment pairs clip.npz --output pairs.parquet
    export OPENAI_API_KEY=...
    python examples/judge_with_an_api.py pairs.parquet --model gpt-4o-mini --images val2014
    cxc-eccv evaluate clip.npz --tasks entailment --judge judge.jsonl

--url names another server, such as http://localhost:8000/v1. Each line of judge.jsonl has image_id, caption_id and
probability, P(yes) / (P(yes) + P(no)) by the log-probabilities of the first word. If you run the command again, it asks
only about pairs that are not in the file. Without --images the model reads the image's captions.
"""

import argparse
import base64
import json
import math
import mimetypes
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from openai import OpenAI

OF_IMAGE = 'Does this caption describe the image? Caption: "{caption}" Answer with yes or no.'
OF_CAPTIONS = (
    'People described an image so: "{captions}" Does this caption describe the same image? Caption: "{caption}" '
    "Answer with yes or no."
)


def ask(client: OpenAI, model: str, files: dict[str, Path], row: dict[str, Any]) -> float | None:
    """P(yes) among yes and no, or None for an answer that is neither."""
    texts = {"caption": row["caption"], "captions": row["captions"]}
    content: list[Any] = [{"type": "text", "text": (OF_IMAGE if files else OF_CAPTIONS).format(**texts)}]
    if files:
        path = files[row["file_name"]]
        data = base64.b64encode(path.read_bytes()).decode()
        address = f"data:{mimetypes.guess_type(path.name)[0] or 'image/jpeg'};base64,{data}"
        content.insert(0, {"type": "image_url", "image_url": {"url": address}})
    message: Any = {"role": "user", "content": content}
    how: dict[str, Any] = {"logprobs": True, "top_logprobs": 20, "temperature": 0, "max_tokens": 4}
    choice = client.chat.completions.create(model=model, messages=[message], **how).choices[0]
    if choice.logprobs is None or not choice.logprobs.content:
        raise SystemExit("the server gives no log-probabilities; use a server or a model that does")
    return read_probability([place.top_logprobs for place in choice.logprobs.content])


def read_probability(places: list[Any]) -> float | None:
    """P(yes) among yes and no in the first place whose likeliest token has a letter; all spellings count."""
    for tops in places:
        likeliest = max(tops, key=lambda top: top.logprob).token
        if any(map(str.isalpha, likeliest)):
            shares = {"yes": 0.0, "no": 0.0}
            for top in tops:
                word = "".join(filter(str.isalpha, top.token)).lower()
                shares[word] = shares.get(word, 0.0) + math.exp(top.logprob)
            yes, no = shares["yes"], shares["no"]
            # If one is not among the listed tokens, it is less likely than all of them.
            is_known = (yes and no) or max(shares, key=lambda word: shares[word]) in ("yes", "no")
            return yes / (yes + no) if is_known else None
    return None


def main(arguments: list[str] | None = None) -> None:
    """Ask about the pairs of a table that have no answer yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="table of entailment pairs (.parquet)")
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--url", help="address of the server; default: that of OpenAI, or OPENAI_BASE_URL")
    parser.add_argument("--images", type=Path, help="folder with the images, at any depth")
    parser.add_argument("--output", type=Path, default=Path("judge.jsonl"))
    parser.add_argument("--workers", type=int, default=8, help="requests at once")
    given = parser.parse_args(arguments)

    lines = given.output.read_text().splitlines() if given.output.exists() else []
    answered = {(row["image_id"], row["caption_id"]) for row in map(json.loads, lines)}
    rows = pq.read_table(given.pairs).to_pylist()
    rows = [row for row in rows if (row["image_id"], row["caption_id"]) not in answered]
    files = {path.name: path for path in given.images.rglob("*.*")} if given.images else {}
    client, unclear = OpenAI(base_url=given.url, max_retries=5), 0  # the key is read from the environment
    with given.output.open("a") as file, ThreadPoolExecutor(given.workers) as pool:
        for start in range(0, len(rows), given.workers):
            batch = rows[start : start + given.workers]
            for row, probability in zip(batch, pool.map(partial(ask, client, given.model, files), batch), strict=True):
                if probability is None:
                    unclear += 1
                    continue
                answer = {"image_id": row["image_id"], "caption_id": row["caption_id"], "probability": probability}
                file.write(json.dumps(answer) + "\n")
            file.flush()
    if unclear:
        raise SystemExit(f"{unclear} of {len(rows)} pairs got an answer that is neither yes nor no; they are left out")


if __name__ == "__main__":
    main()
