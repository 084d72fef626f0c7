"""Scores pairs of images and captions with a cross-encoder, and re-ranks the top items of a dual encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Blip2ForImageTextRetrieval, PreTrainedModel, PreTrainedTokenizerBase

from cxc_eccv.encoding.identity import describe_encoding, model_key
from cxc_eccv.encoding.images import Inputs, group_by_shape, image_input, join_inputs, make_image_encoder
from cxc_eccv.encoding.loading import CROSS_ENCODERS, LoadedModel, inference, load_model
from cxc_eccv.encoding.processes import join_processes
from cxc_eccv.encoding.shards import Notes, Side, encode_side, image_identity, lock_output, write_output
from cxc_eccv.encoding.sides import CaptionSide, ImageSide, PictureSide, caption_items, image_items
from cxc_eccv.encoding.text_input import TextInput, Tokens, text_config
from cxc_eccv.encoding.texts import ContrastiveMatcher, make_text_encoder, without_segments
from cxc_eccv.errors import InvalidOption, MissingIds, ModelError, UnknownName
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import RankingsRun, Run, ScoresRun
from cxc_eccv.runs.embeddings import write_npz
from cxc_eccv.runs.rankings import RankedLists, write_rankings
from cxc_eccv.runs.run import MODEL
from cxc_eccv.types import CROSS_MODAL, Embeddings, IntArray, Judgments, check_whole, find_positions
from cxc_eccv.types.ids import make_indptr
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.model_options import DEFAULT_ENCODING, PAIR_SCORES, Encoding
from cxc_eccv.writing import check_output, replaced_file

MOST_PAIRS = 10_000_000
"""Default of the most pairs to score; COCO 5K has 125 million."""


IMAGES_AHEAD = 32

Result = TypeVar("Result")

Encode = Callable[[Side], tuple[Embeddings, Notes]]


def score_pairs(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    images: str | Path | Iterable[tuple[Any, Any]],
    captions: Any,  # noqa: ANN401 - a table or pairs
    *,
    score: str = "itm",
    output: str | Path | None = None,
    max_pairs: int = MOST_PAIRS,
    encoding: Encoding = DEFAULT_ENCODING,
    progress: bool = True,
) -> ScoresRun:
    """Score every image with every caption by an image-text-matching model.

    Resumes after a kill and shares the work under torchrun, like :func:`cxc_eccv.encoding.encode`.

    Args:
        model: Hub id or folder, or a loaded model: ViLT, BLIP, BLIP-2 or BridgeTower with a retrieval head; with
            another processor, device or type of weights, a model from :func:`cxc_eccv.encoding.load_model`.
        images: as in :func:`cxc_eccv.encoding.encode`.
        captions: as in :func:`cxc_eccv.encoding.encode`.
        score: ``itm``, the logit of "match", or with two classes its lead over "no match". For BLIP and BLIP-2 also
            ``itc``, the cosine of the two vectors (for BLIP-2 the largest over its queries), which encodes every item
            once and ignores ``max_pairs``; or ``itm+itc``, the logit of "match" plus that cosine, as their authors
            report.
        output: ``.npz`` file of scores to write.
        max_pairs: most pairs to score.
        encoding: batch size, and whether to skip bad images.
        progress: show a progress bar.

    Raises:
        InvalidOption: there are more than ``max_pairs`` pairs, or the model does not have this score.
        ModelError: the model cannot be loaded, or does not score pairs.
        SourceMissing, MalformedSource: an image is missing or broken.
    """
    path = None if output is None else check_output(output, [".npz"])
    work = PairWork(load_model(model), score, images, captions, encoding)
    n_images = work.image_ids.size
    n_captions = work.caption_ids.size
    if score != "itc":
        refuse_too_many(n_images * n_captions, max_pairs, f"{n_images} images with {n_captions} captions")

    def make_matrix(encode_one: Encode) -> tuple[ScoresRun, Notes]:
        if score == "itc":
            kept, table, notes = work.contrast(encode_one)
        else:
            pairs, scores, notes = work.score(np.arange(n_images * n_captions), encode_one)
            kept = np.unique(pairs // n_captions)  # without unreadable images
            table = scores.reshape(kept.size, n_captions)
        return ScoresRun(work.image_ids[kept], work.caption_ids, table, model=work.title), notes

    return work.run(make_matrix, _write_scores, path, progress)


def refuse_too_many(pairs: int, most: int, what: str) -> None:
    """Raise InvalidOption for more pairs than the most to score."""
    if pairs > most:
        raise InvalidOption(
            f"{what} are {pairs:,} pairs, each a pass through the model, more than max_pairs={most:,}. Re-rank the top "
            "20 of a dual encoder instead (rerank; --rerank FILE.npz --top-k 20), or raise max_pairs in Python"
        )


def _write_scores(path: Path, run: ScoresRun) -> None:
    with replaced_file(path) as part:
        arrays = {"image_ids": run.image_ids, "caption_ids": run.caption_ids, "scores": run.scores}
        write_npz(part, arrays | ({} if run.model is None else {MODEL: np.array(run.model)}))


class PairWork:
    """A cross-encoder with images and captions; the number of a pair is image row * captions + caption row."""

    def __init__(
        self,
        loaded: LoadedModel,
        score: str,
        images: str | Path | Iterable[tuple[Any, Any]],
        captions: Any,  # noqa: ANN401 - a table or pairs
        encoding: Encoding,
    ) -> None:
        self._loaded = loaded
        self._encoding = encoding
        self.scorer = _PairScorer(loaded, score, encoding.batch_size)
        self.items = image_items(images)
        self.caption_ids, texts = caption_items(captions)
        self._captions = texts
        self.texts = [self._loaded.caption_prompt(text) for text in texts]
        self.tokens, self._truncated = self.scorer.read(self.texts)
        self._score = score
        self.title = self._loaded.title
        self.image_ids = np.array([number for number, _ in self.items], dtype=np.int64)
        self.skip_bad = encoding.skip_bad_images

    def run(
        self,
        make: Callable[[Encode], tuple[Result, Notes]],
        write: Callable[[Path, Result], None],
        path: Path | None,
        progress: bool,
    ) -> Result:
        """Make a result on all processes; the first one writes it if there is a path."""
        settings = [] if self._score == "itm" else [self._score]
        key = "" if path is None else model_key(self._loaded, ["images", "captions"], *settings)
        with join_processes() as processes, lock_output(path, processes):
            encode_one = partial(
                encode_side, output=path, processes=processes, key=key, progress=progress, everywhere=True
            )
            result, notes = make(encode_one)
            notes = Notes.join([notes, Notes(truncated=self._truncated)])
            facts = {**self._loaded.facts, "score": self._score, "fingerprint": key}
            facts["encoding"] = to_json(describe_encoding(self._loaded, ["images", "captions"]))
            write_output(processes, path, lambda to: write(to, result), notes, facts)
        return result

    def score(self, pairs: IntArray, encode_one: Encode) -> tuple[IntArray, NDArray[np.float32], Notes]:
        """The ascending pairs whose image is readable, their scores, and notes about the images."""
        scored, notes = encode_one(_PairSide(self, pairs))
        pairs = pairs[scored.ids]
        scores = scored.vectors[:, 0]
        if self._score == "itm+itc":
            rows, table, _ = self.contrast(encode_one)
            images, captions = np.divmod(pairs, self.caption_ids.size)
            scores = scores + table[np.searchsorted(rows, images), captions]
        return pairs, scores, notes

    def contrast(self, encode_one: Encode) -> tuple[IntArray, NDArray[np.float32], Notes]:
        """Rows of the N readable images, their (N, M) cosines with the captions, and notes about the images."""
        plain = Encoding(batch_size=self._encoding.batch_size)
        images, notes = encode_one(ImageSide(make_image_encoder(self._loaded, plain), self.items, self.skip_bad))
        texts = CaptionSide(make_text_encoder(self._loaded, plain), self.caption_ids, self._captions)
        captions = encode_one(texts)[0].vectors
        tables = (
            vectors @ captions.T
            for vectors in np.split(images.vectors, images.vectors.shape[1] // captions.shape[1], 1)
        )
        return find_positions(images.ids, self.image_ids)[0], reduce(np.maximum, tables), notes


class _PairScorer:
    """Scores pairs by the matching head: the logit of "match", or its lead over "no match".

    If a cosine is added it is the logit alone, as in BLIP's code. Unlike probabilities, logits do not tie at 1.
    """

    def __init__(self, loaded: LoadedModel, score: str, batch_size: int) -> None:
        model = loaded.model
        if not loaded.is_cross_encoder or not isinstance(model, PreTrainedModel):
            raise ModelError(
                f"{loaded.name} ({type(model).__name__}) does not score pairs; give one of "
                f"{', '.join(CROSS_ENCODERS)}, or use encode for its embeddings"
            )
        if score not in PAIR_SCORES:
            raise UnknownName("score", score, PAIR_SCORES)
        if score != "itm" and not isinstance(model, ContrastiveMatcher):
            raise InvalidOption(f"score {score}: {type(model).__name__} has only a matching head; leave the score out")
        self._model = model
        self._loaded = loaded
        self.batch_size = batch_size
        self._sums = score == "itm+itc"
        self._texts = TextInput(loaded.tokenizer, model)
        self._first = (
            encoder_token(loaded.tokenizer, model) if self._sums and model.config.model_type == "blip" else None
        )
        self.prepare = image_input(loaded, DEFAULT_ENCODING)

    def read(self, texts: Sequence[str]) -> tuple[list[Tokens], int]:
        """The tokens of texts, and the number of texts that exceed the model's context and were cut."""
        tokens, lengths = self._texts.read(texts)
        return tokens, 0 if self._texts.limit is None else int(np.count_nonzero(lengths > self._texts.limit))

    def __call__(self, images: Sequence[Inputs], captions: Sequence[Tokens]) -> NDArray[np.float32]:
        """(N,) scores; images with different tensor shapes are run separately."""
        scores = np.empty(len(captions), dtype=np.float32)
        with inference(self._model):
            for group in group_by_shape(images):
                tokens = self._texts.pad([captions[place] for place in group])
                if self._first is not None:
                    tokens["input_ids"][:, 0] = self._first
                inputs = {name: tensor.to(self._loaded.device) for name, tensor in tokens.items()}
                inputs |= join_inputs(self._loaded, [images[place] for place in group])
                scores[group] = self._match(inputs).float().cpu().numpy()
        return scores

    def _match(self, inputs: Inputs) -> torch.Tensor:
        """(N,) scores from (N, 1) logits, or from (N, 2) logits of "no match" and "match"."""
        if isinstance(self._model, Blip2ForImageTextRetrieval):
            inputs = _make_room(without_segments(self._model.forward, inputs), self._model)
            logits: torch.Tensor = self._model(**inputs, use_image_text_matching_head=True).logits_per_image
        else:
            output = self._model(**inputs)
            logits = output.itm_score if hasattr(output, "itm_score") else output.logits
        if logits.shape[1] == 1:
            return logits[:, 0]
        return logits[:, 1].float() if self._sums else logits[:, 1].float() - logits[:, 0].float()


def encoder_token(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> int:
    """The id of ``[ENC]``, with which BLIP was trained as first token; published tokenizers lack it and ``[DEC]``."""
    words = tokenizer.get_vocab()
    rows = text_config(model).vocab_size
    if "[ENC]" in words:
        return int(words["[ENC]"])
    if rows != len(words) + 2:
        raise ModelError(
            f"score itm+itc: the tokenizer has no [ENC], and its id is unclear with {rows} embeddings for {len(words)} "
            "tokens; add it to the tokenizer, or score by itm"
        )
    return int(rows - 1)


def _make_room(inputs: Inputs, model: Blip2ForImageTextRetrieval) -> Inputs:
    """The inputs with image tokens before the text, which some configs of BLIP-2 expect and cut off."""
    if model.config.image_token_index is None:
        return inputs
    shape = len(inputs["input_ids"]), model.config.num_query_tokens
    before = {"input_ids": model.config.image_token_index, "attention_mask": 1}
    room = {name: torch.full(shape, value, device=inputs[name].device) for name, value in before.items()}
    return inputs | {name: torch.cat([room[name], inputs[name]], dim=1) for name in room}


class _PairSide(PictureSide):
    """Pairs in ascending order of their numbers; the (N, 1) scores take the place of vectors."""

    name = "pairs"
    shard_size = 8192

    def __init__(self, work: PairWork, pairs: IntArray) -> None:
        rows, self._captions = np.divmod(pairs, work.caption_ids.size)
        scorer = work.scorer
        super().__init__(work.items, rows, scorer.prepare, batch_size=scorer.batch_size, skip_bad=work.skip_bad)
        self._work = work
        self.ids = np.arange(pairs.size)
        self.ahead = IMAGES_AHEAD

    def identity(self, part: slice) -> list[Any]:
        """The images and captions of the pairs, and the pairs."""
        images = np.unique(self.rows[part])
        captions = np.unique(self._captions[part])
        files = [image_identity(self.items[row][1]) for row in images.tolist()]
        texts = [self._work.texts[row] for row in captions.tolist()]
        return [self.skip_bad, self.rows[part].tolist(), self._captions[part].tolist(), files, texts]

    def encode(self, places: Sequence[int], images: Sequence[Inputs]) -> NDArray[np.float32]:
        """See :class:`PictureSide`."""
        tokens = [self._work.tokens[row] for row in self._captions[list(places)].tolist()]
        return self._work.scorer(images, tokens)[:, None]


def rerank(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    run: Run,
    images: str | Path | Iterable[tuple[Any, Any]],
    captions: Any,  # noqa: ANN401 - a table or pairs
    *,
    top_k: int = 20,
    score: str = "itm",
    output: str | Path | None = None,
    max_pairs: int = MOST_PAIRS,
    encoding: Encoding = DEFAULT_ENCODING,
    progress: bool = True,
) -> RankingsRun:
    """Re-rank the top items of a dual encoder by the scores of an image-text-matching model.

    Every image keeps its ``top_k`` captions by the run's similarity, and every caption its ``top_k`` images. The
    rankings end there, so metrics that look deeper are refused.

    Args:
        model: as in :func:`score_pairs`.
        run: vectors or scores of all these images and captions.
        images: as in :func:`score_pairs`.
        captions: as in :func:`score_pairs`.
        top_k: items per query.
        score: ``itm`` or ``itm+itc``, as in :func:`score_pairs`.
        output: ``.parquet`` file of rankings to write.
        max_pairs: most pairs to score.
        encoding: as in :func:`score_pairs`.
        progress: show a progress bar.

    Raises:
        InvalidOption: ``top_k`` is below 1 or above the number of images or captions; or there are too many pairs.
        MissingIds: the run lacks an image or a caption.
        ModelError: the model cannot be loaded, or does not score pairs.
    """
    path = None if output is None else check_output(output, [".parquet"])
    if score == "itc":
        raise InvalidOption("score itc is not for re-ranking; score all pairs by itc, and re-rank the top of that file")
    work = PairWork(load_model(model), score, images, captions, encoding)
    ids = work.image_ids, work.caption_ids
    tops, pairs = _top_pairs(run, ids, top_k, max_pairs)

    def make_lists(encode_one: Encode) -> tuple[RankingsRun, Notes]:
        scored, scores, notes = work.score(pairs, encode_one)
        return _rank_by_score(tops, ids, work.title, scored, scores), notes

    return work.run(make_lists, write_rankings, path, progress)


def _top_pairs(
    run: Run, ids: tuple[IntArray, IntArray], top_k: int, max_pairs: int
) -> tuple[dict[str, IntArray], IntArray]:
    """The candidates of both directions, and the ascending numbers of their pairs."""
    most = min(ids[0].size, ids[1].size)
    n_captions = ids[1].size
    check_whole("top_k", top_k)
    if top_k > most:
        raise InvalidOption(f"top_k is {top_k!r}, expected a whole number from 1 to {most}, the smaller gallery's size")
    tops = find_candidates(run, *ids, top_k)
    images, captions = (np.arange(len(rows))[:, None] for rows in (tops["i2t"], tops["t2i"]))
    both = ((images * n_captions + tops["i2t"]).ravel(), (tops["t2i"] * n_captions + captions).ravel())
    pairs = np.unique(np.concatenate(both))
    refuse_too_many(pairs.size, max_pairs, f"the top {top_k} of every query")
    return tops, pairs


def find_candidates(run: Run, image_ids: IntArray, caption_ids: IntArray, top_k: int) -> dict[str, IntArray]:
    """(N, top_k) captions of each image (``i2t``) and (M, top_k) images of each caption (``t2i``), of ties by id."""
    if run.may_be_cut:
        raise InvalidOption(f"a run of {run.kind} has no candidates to re-rank; give embeddings or scores")
    for side, wanted in (("images", image_ids), ("captions", caption_ids)):
        missing = wanted[~np.isin(wanted, run.ids(side))]
        if missing.size:
            raise MissingIds(
                f"the run to re-rank lacks {missing.size} of {wanted.size} {side}, the first: {missing[0]}. Encode "
                "them too, or name the split from which it was made."
            )
    lacking = [why for why in map(run.why_not, CROSS_MODAL) if why is not None]
    if lacking:
        raise InvalidOption(f"both directions are re-ranked, but {lacking[0]}; give embeddings or scores of both")
    ids = {"i2t": (image_ids, caption_ids), "t2i": (caption_ids, image_ids)}
    readers = {direction: [TopRows(Judgments.empty(*pair), top_k)] for direction, pair in ids.items()}
    ranked(run).rank_all({}, readers)
    return {name: find_positions(reader.result.ids, ids[name][1])[0] for name, (reader,) in readers.items()}


def _rank_by_score(
    tops: dict[str, IntArray],
    ids: tuple[IntArray, IntArray],
    title: str | None,
    pairs: IntArray,
    scores: NDArray[Any],
) -> RankingsRun:
    """Every query's candidates ordered by the (P,) scores of numbered pairs, without unreadable images."""
    lists = {}
    for direction, rows in tops.items():
        queries, items = ids if direction == "i2t" else ids[::-1]
        numbers = np.arange(len(rows))[:, None] * ids[1].size + rows
        if direction == "t2i":
            numbers = rows * ids[1].size + np.arange(len(rows))[:, None]
        places, known = find_positions(numbers.ravel(), pairs)
        table = np.where(known, scores[places], -np.inf).reshape(rows.shape)
        order = np.argsort(-table, axis=1, kind="stable")
        kept = np.take_along_axis(known.reshape(rows.shape), order, 1)
        counts = kept.sum(axis=1)
        ranked, ordered = (np.take_along_axis(values, order, 1)[kept] for values in (items[rows], table))
        indptr = make_indptr(counts[counts > 0])
        lists[direction] = RankedLists(queries[counts > 0], indptr, ranked, ordered, place=f"re-ranked {direction}")
    return RankingsRun(lists, title)
