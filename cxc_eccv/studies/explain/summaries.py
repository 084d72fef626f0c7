"""Abstractive summaries of an image's captions by models such as T5 and Pegasus, in batches and cached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from tqdm.auto import tqdm
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

from cxc_eccv.encoding.identity import model_key
from cxc_eccv.encoding.loading import LoadedModel, Processors, from_checkpoint
from cxc_eccv.encoding.shards import fingerprint
from cxc_eccv.errors import InvalidOption, MalformedRun, ModelError
from cxc_eccv.ranking.device import torch_on
from cxc_eccv.sources.download import encodings_folder
from cxc_eccv.studies.explain.caption_corpus import Pairing
from cxc_eccv.types import check_whole
from cxc_eccv.writing import append_lines, cache_held, locked, read_whole_lines, resumable

PREFIX = "summarize: "
"""The prompt of T5; models trained for summaries only need none."""

LONGEST_SUMMARY = 64
"""Tokens of a summary if the checkpoint sets no limit."""


@dataclass(frozen=True)
class Summarizer:
    """A sequence-to-sequence model that generates without sampling, with its checkpoint's settings for summaries."""

    loaded: LoadedModel
    prefix: str
    settings: dict[str, Any]

    @cached_property
    def key(self) -> str:
        """Hex sha256 of everything that its summaries depend on."""
        return model_key(self.loaded, ["captions"], self.prefix, json.dumps(self.settings, sort_keys=True))

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for the provenance of a report."""
        return {"model": self.loaded.title, "prefix": self.prefix, "settings": self.settings}

    def write(self, texts: Sequence[str]) -> list[str]:
        """The summaries of a batch of texts."""
        tokenizer = self.loaded.tokenizer
        model: Any = self.loaded.model
        limit = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or 10**6, 10**6)
        inputs = tokenizer(
            [self.prefix + text for text in texts], padding=True, truncation=True, max_length=limit, return_tensors="pt"
        )
        with torch.inference_mode():
            made = model.generate(
                input_ids=inputs["input_ids"].to(self.loaded.device),
                attention_mask=inputs["attention_mask"].to(self.loaded.device),
                **{**self.settings, "do_sample": False},
            )
        return [" ".join(text.split()) for text in tokenizer.batch_decode(made, skip_special_tokens=True)]


def load_summarizer(source: str, *, device: str | None = None) -> Summarizer:
    """Load a summariser of transformers (T5, Pegasus, BART) by Hub id or folder."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch_on(device)
    model = from_checkpoint(source, torch.float32, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values())
    config: Any = getattr(model, "config", None)
    if not (getattr(config, "is_encoder_decoder", False) and model.can_generate()):
        raise ModelError(
            f"{source} is a {type(model).__name__}, which writes no summaries; choose a sequence-to-sequence model "
            "such as google-t5/t5-base or google/pegasus-xsum"
        )
    title = Path(source).resolve().name if Path(source).is_dir() else source
    loaded = LoadedModel(model.to(device).eval(), Processors(None, source), source, title=title)
    settings = dict((getattr(config, "task_specific_params", None) or {}).get("summarization", {}))
    prefix = settings.pop("prefix", PREFIX if config.model_type in ("t5", "mt5", "umt5", "longt5") else "")
    default = model.generation_config
    limited = {"max_length", "max_new_tokens"} & settings.keys() or default.max_new_tokens or default.max_length
    if not limited:
        positions = getattr(config, "max_position_embeddings", None) or 10**6
        settings["max_new_tokens"] = min(LONGEST_SUMMARY, positions - 1)
    return Summarizer(loaded, prefix, settings)


def join_captions(captions: pa.Table, pairing: Pairing) -> list[str]:
    """The captions of each image other than the query, as one text of sentences."""
    texts = [" ".join(text.split()) for text in captions["text"].to_pylist()]
    ended = [text if text.endswith((".", "!", "?")) else f"{text}." for text in texts]
    return [" ".join(map(ended.__getitem__, rows)) for rows in pairing.rows_of_others]


def summarize(
    summarizer: Summarizer, texts: Sequence[tuple[int, int, str]], file: Path | None = None, *, batch_size: int = 32
) -> list[str]:
    """The summary of each (image id, position of the query, text), computed or cached.

    Summaries are appended to ``file``, or to a file in the cache, as they are made, so that a killed call resumes.
    """
    check_whole("batch_size", batch_size)
    place = file or encodings_folder() / f"summaries-{summarizer.key[:16]}.jsonl"
    sources = [fingerprint(summarizer.key, *text)[:24] for text in texts]
    wanted = dict(zip(sources, texts, strict=True))
    with cache_held(place) if file is None else locked(place) as keeps:
        known = _read_kept(place)
        if file is not None and not known.keys() <= wanted.keys():
            raise InvalidOption(
                f"{file} has summaries of other captions, or by another model than {summarizer.loaded.name}: give "
                "another file, or leave --summarizer out to use the summaries in it"
            )
        lacking = sorted(wanted.keys() - known.keys(), key=lambda source: (-len(wanted[source][2]), source))
        bar = tqdm(total=len(lacking), desc="summaries", disable=None, leave=False)
        note = f"Finished summaries are kept in {place}; the same command continues from them."
        noting = nullcontext() if keeps is False else resumable(note)
        with bar, noting:
            for start in range(0, len(lacking), batch_size):
                batch = lacking[start : start + batch_size]
                made = dict(zip(batch, summarizer.write([wanted[source][2] for source in batch]), strict=True))
                rows = []
                for source in batch:
                    image_id, position, _ = wanted[source]
                    row = {"image_id": image_id, "query_position": position, "summary": made[source], "source": source}
                    rows.append(json.dumps(row, ensure_ascii=False))
                if keeps is not False:
                    append_lines(place, rows)
                known |= made
                bar.update(len(batch))
    return [known[source] for source in sources]


def _read_kept(file: Path) -> dict[str, str]:
    """Source to summary of every complete line."""
    kept = {}
    for number, line in enumerate(read_whole_lines(file), start=1):
        try:
            row = json.loads(line)
            kept[str(row["source"])] = str(row["summary"])
        except (ValueError, KeyError, TypeError):
            raise MalformedRun(
                f"{file}: line {number} has no source and summary, so this command did not write it; give another "
                "file, or leave --summarizer out to use the summaries in it"
            ) from None
    return kept
