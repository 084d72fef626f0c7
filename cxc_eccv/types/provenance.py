"""What the numbers of a report were computed from: versions, data, run, options and labels, as report.json has them."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from cxc_eccv.types.json_records import null_if, to_json
from cxc_eccv.types.strict_json import SHARE, Json, JsonObject


@dataclass(frozen=True, slots=True)
class Package:
    """The package that made the report."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ModifiedFile:
    """The sha256 of a raw file that differs from the catalog."""

    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The raw files that were read.

    Attributes:
        edition: ``official``, ``sample``, or what the catalog of a mirror folder says.
        version: of the data, which is not that of the package.
        fingerprint: sha256 over the names and hashes of all raw files.
        files: catalog name to sha256.
        modified: catalog name to the hashes of a file that differs from the catalog.
    """

    edition: str = ""
    version: str = ""
    fingerprint: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    modified: Mapping[str, ModifiedFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """The images or the captions of a run: their number, width of their vectors, and how many no task needs."""

    count: int
    dimensions: int | None = None
    outside_the_tasks: int | None = None


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The rankings of one direction: file, number of queries, and length of the shortest and longest list.

    ``scored_share`` is the share of the pairs that were scored, of rankings made of a score matrix.
    """

    file: str | None = field(default=None, metadata=null_if(bool))
    sha256: str | None = field(default=None, metadata=null_if(bool))
    queries: int | None = None
    shallowest: int | None = None
    deepest: int | None = None
    scored_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingFacts:
    """What made vectors or scores of pairs, of all that changes their values.

    Attributes:
        revision: of the model on the Hub, if one was named.
        dtype: type of the weights.
        pooling: of a plain text model; None for a model that pools itself.
        central_crop: share of an image's area that was kept; None for the whole image.
        ten_crops: shorter side and size of ten crops whose vectors were averaged; None for the whole image.
        lowercased: whether texts were lower-cased first.
        prompts: ``images`` or ``captions``, or a role such as ``caption_query``, to the prompt with ``{}`` for the
            item; without the sides that have none.
        prompts_from: ``the model`` if its saved prompts of queries and documents were used by default.
        tokenizer: class of the tokenizer.
        image_processor: class of the image processor, and the library that it computes with.
        versions: name of a package that computes to its version.
    """

    revision: str | None = None
    dtype: str = ""
    pooling: str | None = None
    central_crop: float | None = None
    ten_crops: Mapping[str, int] | None = None
    lowercased: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompts_from: str | None = None
    tokenizer: str | None = None
    image_processor: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run: its kind, file, name and size.

    Attributes:
        kind: ``embeddings``, ``scores`` or ``rankings``; empty for a report that was made without a run.
        file: name of the file; None for a run from arrays.
        sha256: of the file; rankings have one per direction.
        model: name of the model, as the file says.
        corpus: what represents an image in a ranking of captions, if not the image itself.
        type: of the numbers of a matrix of scores.
        matrices: direction to the type of the numbers of its own matrix of scores.
        directions: direction to its rankings.
        images, captions: those of the run.
        further: names of further vectors, as of altered captions, to their number.
        roles: names of vectors beside those of the gallery, such as ``caption_query``.
        encoding: what made the vectors or scores, as the record beside the file says.
    """

    kind: str = ""
    file: str | None = field(default=None, metadata=null_if(lambda run: run.kind))
    sha256: str | None = field(default=None, metadata=null_if(lambda run: run.kind and run.kind != "rankings"))
    model: str | None = None
    corpus: str | None = None
    type: str | None = None
    matrices: Mapping[str, str] = field(default_factory=dict)
    directions: Mapping[str, ListFacts] = field(default_factory=dict)
    images: ItemFacts | None = None
    captions: ItemFacts | None = None
    further: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    encoding: EncodingFacts | None = None

    @property
    def has_no_vectors(self) -> bool:
        """Whether it is a matrix of scores, or rankings."""
        return self.kind in ("scores", "rankings")


@dataclass(frozen=True, slots=True)
class SideShare:
    """How many of the images, or of the captions, were scored."""

    used: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictionFacts:
    """The part of the split that was scored; empty for the whole split.

    Attributes:
        limit: number of images asked for, the first by id.
        allow_missing: whether items that the run lacks were left out.
        unreadable_images: number of images that could not be read when the run was made.
        images, captions: how many were scored, if not all.
        left_out_sha256: of the ids left out.
    """

    limit: int | None = None
    allow_missing: bool | None = None
    unreadable_images: int | None = None
    images: SideShare | None = None
    captions: SideShare | None = None
    left_out_sha256: str | None = None

    @property
    def counts(self) -> list[str]:
        """How many images and captions were scored, in words, if not all.

        Example:
            >>> RestrictionFacts(images=SideShare(198, 5000)).counts
            ['198 of 5,000 images']
        """
        parts = {"images": self.images, "captions": self.captions}
        return [f"{part.used:,} of {part.of:,} {side}" for side, part in parts.items() if part is not None]

    def __str__(self) -> str:
        """The part in words; empty for the whole split."""
        reasons = [
            f"the first {self.limit:,} by id" if self.limit else "",
            f"without {self.unreadable_images:,} that could not be read" if self.unreadable_images else "",
            "without what the run lacks" if self.allow_missing else "",
        ]
        return f"{' and '.join(self.counts)} ({', '.join(filter(None, reasons))})" if self.counts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFileFacts:
    """A file of labels: its version, how people's answers became labels, its numbers of pairs, and where it is from."""

    version: str = ""
    scheme: str | None = None
    rule: str | None = None
    people: int | None = None
    licence: str | None = None
    pairs: int | None = None
    positive: int | None = None
    repository: str | None = None
    revision: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFacts:
    """The labels that define the positives of all tasks in place of their own; empty if each task has its own.

    Attributes:
        sources: names of the sources, in their declared order.
        policy: how they are merged.
        files: source to the facts of its file of labels.
        repeats: ``task/direction`` to the earlier one with the same queries and positives.
    """

    sources: tuple[str, ...] = ()
    policy: str | None = None
    files: Mapping[str, LabelFileFacts] = field(default_factory=dict, metadata=null_if(lambda facts: facts.sources))
    repeats: Mapping[str, str] = field(default_factory=dict, metadata=null_if(lambda facts: facts.sources))

    def __str__(self) -> str:
        """The sources in words, files with their versions."""
        files = self.files
        return " + ".join(f"{name} {files[name].version}".rstrip() if name in files else name for name in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFacts:
    """The classifier that labelled pairs without a label.

    Attributes:
        model: its name.
        fingerprint: of its weights.
        threshold: probability from which a pair is entailed.
        looks_at: ``captions``, or ``captions and image``.
        trained_on: source of pairs to their number; None if unknown.
        cautions: sentences for readers.
        pairs: ``task/direction`` to the number of pairs that it labelled.
    """

    model: str
    fingerprint: str | None = None
    threshold: float | None = None
    looks_at: str | None = None
    trained_on: Json = field(default=None, metadata=null_if(lambda judge: judge.looks_at))
    cautions: tuple[str, ...]
    pairs: Mapping[str, int] = field(default_factory=dict)

    @property
    def identity(self) -> JsonObject:
        """The entries but for the numbers of pairs, which differ from run to run."""
        return to_json(replace(self, pairs={}))


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """People's answers about pairs drawn for one number: its key, and how many pairs are positive."""

    number: str
    pairs: int
    positive: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a report was computed from, without date and machine, so that equal inputs give equal reports.

    Attributes:
        package: the package that made the report.
        numpy: version of NumPy.
        data: the raw files that were read.
        split: ``validation`` or ``test``.
        seed: of the bootstrap.
        confidence: level of the intervals; null without intervals.
        intervals: kind of the intervals asked for; each result names its own.
        bounds_depth: number of retrieved items for bounds of metrics without K.
        answers: people's answers that an estimate uses.
        label_files: name to facts of each file of labels behind the task ``annotated``.
        entailment_labels, flickr30k_entailment_labels: how often files of entailment labels contradict others.
        unjudged: the classifier that labelled pairs without a label.
        run: kind, file and size of the run.
        similarity: ``cosine`` or ``dot``; null for a run without vectors.
        similarity_from: who chose it.
        model: name of the model.
        trained_on: what the model was trained on.
        trained_on_from: who says so.
        restriction: the part of the split that was scored.
        labels: the labels that replace those of the tasks.
        options: options that differ from their defaults and have no entry of their own.
        others: further entries, which are only shown.
        command: the command line.

    Example:
        >>> Provenance(split="test", data=DataFacts(edition="sample")).data.edition
        'sample'
    """

    package: Package = field(default_factory=Package)
    numpy: str = ""
    data: DataFacts = field(default_factory=DataFacts)
    split: str = ""
    seed: int | None = None
    confidence: Annotated[float, SHARE] | None = field(default=None, metadata=null_if(lambda report: report.intervals))
    intervals: str = ""
    bounds_depth: int | None = None
    answers: AnswerFacts | None = None
    label_files: Mapping[str, LabelFileFacts] = field(default_factory=dict)
    entailment_labels: JsonObject = field(default_factory=dict)
    flickr30k_entailment_labels: JsonObject = field(default_factory=dict)
    unjudged: JudgeFacts | None = None
    run: RunFacts = field(default_factory=RunFacts)
    similarity: str | None = field(default=None, metadata=null_if(lambda report: report.run.has_no_vectors))
    similarity_from: str | None = field(default=None, metadata=null_if(lambda report: report.run.has_no_vectors))
    model: str | None = None
    trained_on: tuple[str, ...] = ()
    trained_on_from: str | None = None
    restriction: RestrictionFacts = field(default_factory=RestrictionFacts)
    labels: LabelFacts = field(default_factory=LabelFacts)
    options: JsonObject = field(default_factory=dict)
    others: JsonObject = field(default_factory=dict)
    command: str | None = None


def find_options(request: Any, recorded: Container[str]) -> JsonObject:  # noqa: ANN401 - a dataclass
    """The options of a request that differ from their defaults, without the fields that are ``recorded`` elsewhere.

    Example:
        >>> from cxc_eccv.statistics import Intervals
        >>> find_options(Intervals(seed=3, intervals="none"), recorded=("seed",))
        {'intervals': 'none'}
    """
    changed = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in recorded}
    defaults = type(request)()
    options = {name: value for name, value in changed.items() if value != getattr(defaults, name)}
    written: JsonObject = json.loads(json.dumps(options, default=str))
    return written
