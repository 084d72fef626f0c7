"""An annotation project: all that was proposed, asked and answered, in one folder that can be committed.

::

    FOLDER/annotation.json              name, scheme, split, seed, the data it is about, and how many rounds there are
    FOLDER/rounds/1/round.json          how its pairs were proposed, and hashes of the tables beside it
    FOLDER/rounds/1/candidates.parquet  pairs to ask about, with who proposed them
    FOLDER/rounds/1/known.parquet       pairs that were proposed and are known to match: nobody is asked about them
    FOLDER/rounds/1/questions.parquet   the sheets, known pairs among the candidates
    FOLDER/rounds/1/answers.parquet     what was imported so far
    FOLDER/checks.json                  what somebody decided about doubtful sheets
    FOLDER/labels.parquet, README.md    what follows from the answers of all rounds

A step ends in one rename, so that a process that dies at any point leaves the project as it was; only a card may be
older than its labels, until the next merge. Equal steps give equal bytes, and a file that was changed since is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence import Thresholds, gather, label_sources, official_sources, sources_of
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.sources.reading import read_json
from cxc_eccv.studies.annotation.labelling.card import check_terms, is_unchanged, label_card
from cxc_eccv.studies.annotation.labelling.settling import describe_labels, settle
from cxc_eccv.studies.annotation.proposing.candidates import CANDIDATES, propose
from cxc_eccv.studies.annotation.rounds import (
    RESTORE,
    ROUNDS,
    Round,
    add_answers,
    read_round,
    round_numbers,
    seal,
    unseal,
    write_round,
)
from cxc_eccv.studies.asking.answers import SCHEMA as ANSWERS
from cxc_eccv.studies.asking.exchange import Format, formats
from cxc_eccv.studies.asking.quality.sheets import Checks, accept, judge_sheets, read_checks, write_checks
from cxc_eccv.studies.asking.questions import CANDIDATES_A_SHEET, Question, build_sheets
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.types import IntArray
from cxc_eccv.types.strict_json import COUNT, TEXT, WHOLE
from cxc_eccv.writing import locked, refuse_unwritable, replaced_file, write_json

__all__ = ["CARD", "LABELS", "PROJECT", "Project", "compare_labels"]

PROJECT, LABELS, CARD = "annotation.json", "labels.parquet", "README.md"

NAME = re.compile(r"[a-z][a-z0-9_]*")

PAIR = ["image_id", "caption_id"]
SAID = pa.schema([("image_id", pa.int64()), ("caption_id", pa.int64()), ("source_positive", pa.bool_())])

DATA = {"edition": TEXT, "version": TEXT, "content": TEXT, "images": COUNT, "captions": COUNT}
FACTS = {"name": TEXT, "scheme": TEXT, "split": TEXT, "seed": WHOLE, "data": DATA, "rounds": COUNT}
"""What annotation.json says."""

PATIENCE = 60.0
"""Seconds to wait for another process that is at a step of the same project."""


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """The state of a project as it was read; each step writes, and gives the state after it.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.karpathy("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.karpathy("test").image_ids.tolist()})
        >>> project = Project.create(tempfile.mkdtemp(), library, name="ours").propose({"first": run}, budget=36)
        >>> len(project.rounds[0].sheets), len(project.questions()[0])
        (2, 20)
    """

    folder: Path
    library: Library  # the raw sources that it is about
    name: str  # of the source of labels that it makes
    scheme: Scheme  # how people are asked
    split: str
    seed: int  # of all draws; the sheets of round N are drawn by seed + N - 1
    data: Mapping[str, Any]  # edition, fingerprint and sizes of the split
    rounds: tuple[Round, ...] = ()  # in order; none before the first is proposed

    @classmethod
    def create(
        cls,
        folder: str | Path,
        library: Library,
        *,
        name: str,
        scheme: str = "eccv",
        split: str = "test",
        seed: int = 0,
    ) -> Project:
        """A project without a round; nothing is written before the first one is proposed.

        Args:
            folder: where it is to be; one that holds other files is as good as none.
            library: the raw sources.
            name: of the source of labels: small letters, digits and ``_``, and of no source that there is.
            scheme: a name of :func:`cxc_eccv.studies.asking.schemes.schemes`.
            split: of COCO.
            seed: of all draws.
        """
        folder = Path(folder)
        refuse_unwritable(folder / PROJECT, file=True)
        if round_numbers(folder):
            raise InvalidOption(f"{folder} is an annotation project already; open it, or name another folder")
        if (folder / LABELS).exists():
            raise InvalidOption(f"{folder / LABELS} is there, and not the rounds that it was made of; {RESTORE}")
        if (folder / PROJECT).exists():
            _refuse_lost(folder, 0, unseal(folder / PROJECT, FACTS)["rounds"])
        if not NAME.fullmatch(name):
            raise InvalidOption(
                f"name {name!r}: give one (--name) of small letters, digits and _ that begins with a letter"
            )
        if name in label_sources():
            raise InvalidOption(
                f"name {name!r} is taken by a source, as are {', '.join(label_sources())}; choose another (--name)"
            )
        if scheme not in schemes():
            raise UnknownName("scheme", scheme, schemes())
        content = library.karpathy(split)
        data = {
            "edition": library.edition,
            "version": library.catalog.version,
            "content": content.fingerprint,
            "images": content.image_ids.size,
            "captions": content.caption_ids.size,
        }
        return cls(folder, library, name, schemes()[scheme], split, seed, data)

    @classmethod
    def open(cls, folder: str | Path, library: Library) -> Project:
        """The project in a folder, every file of it checked.

        Raises:
            SourceMissing: there is none, or a file or a round of it is missing.
            MalformedSource: a file was changed, or is of another version of this package.
            DataError: it is about other data than that at hand.
        """
        folder, path = Path(folder), Path(folder) / PROJECT
        if not path.is_file():
            there = bool(round_numbers(folder))
            next_ = f"but {folder / ROUNDS} is there: {RESTORE}" if there else "cxc-eccv annotate propose makes one"
            raise SourceMissing(f"{folder} is no annotation project, {PROJECT} is missing in it; {next_}")
        facts = unseal(path, FACTS)
        if facts["scheme"] not in schemes():
            raise UnknownName(f"scheme in {path}:", facts["scheme"], schemes())
        scheme, split, data = schemes()[facts["scheme"]], facts["split"], facts["data"]
        content = library.karpathy(split)
        if data["content"] != content.fingerprint:
            raise DataError(
                f"{folder} is about the split {split!r} of edition {data['edition']}, with {data['images']} images and "
                f"{data['captions']} captions, and the data at hand is another: edition {library.edition}, with "
                f"{content.image_ids.size} images and {content.caption_ids.size} captions there. Name the data that it "
                "is about (--data-dir), or begin another project."
            )
        numbers = round_numbers(folder)
        _refuse_lost(folder, len(numbers), facts["rounds"])
        project = cls(folder, library, facts["name"], scheme, split, facts["seed"], data)
        rounds = tuple(read_round(folder, number, project.checksum, scheme) for number in numbers)
        return replace(project, rounds=rounds)

    def propose(
        self,
        runs: Mapping[str, Run],
        *,
        strategy: str = "eccv",
        size: int = CANDIDATES_A_SHEET,
        leave_open: bool = False,
        sources: Sequence[str] | None = None,
        **options: Any,  # noqa: ANN401 - of cxc_eccv.studies.annotation.proposing.propose
    ) -> Project:
        """Add a round: candidates that no earlier round asked about, in sheets with known pairs among them.

        The same request once more, while sheets of the round that it made are open, changes nothing: it may be the
        repetition of one that was killed after its round was written.

        Args:
            runs: name of each model to its run.
            strategy: how pairs are chosen.
            size: candidates of a sheet.
            leave_open: go on although sheets of the last round have no answer; they can still be answered.
            sources: whose labels are known; None for those of all people, label files of the library among them.
            **options: of :func:`cxc_eccv.studies.annotation.proposing.propose`.

        Raises:
            InvalidOption: sheets of the last round are open, and the request is another.
            DataError: nothing is left to ask, or another process has added a round meanwhile.
        """
        request = _identify(runs, strategy=strategy, size=size, sources=sources, **options)
        if self._waits_for_answers(request, leave_open=leave_open):
            with self._hold():  # counts a round whose writer died before
                return self
        proposal = propose(
            runs,
            self.library,
            self.split,
            strategy=strategy,
            seed=self.seed,
            sources=sources,
            asked=self.candidates() if self.rounds else None,
            **options,
        )
        if not proposal.candidates.num_rows:
            counts = proposal.facts["counts"]
            raise DataError(
                f"strategy {strategy} has no pair left to ask about: of {counts['distinct']:,} that it proposes "
                f"{counts['known_positive']:,} are known to match, {counts['judged_negative']:,} known not to, "
                f"{counts['asked_before']:,} asked before. Take more models, queries or depth, or another strategy."
            )
        number = len(self.rounds) + 1
        sheets = build_sheets(
            proposal.candidates,
            self.library.karpathy(self.split),
            positive=self._find_matches(sources),
            is_near=proposal.is_near,
            invalid=(self.library.invalid_ids("image"), self.library.invalid_ids("caption")),
            size=size,
            seed=self.seed + number - 1,
        )
        with self._hold():
            if len(round_numbers(self.folder)) >= number:
                raise DataError(
                    f"another process has added round {number} to {self.folder} meanwhile; this one is not written. "
                    "Look at that round, then propose again"
                )
            if number == 1:
                self._write_facts(rounds=0)
            write_round(
                self.folder,
                number,
                self.checksum,
                self.scheme,
                (proposal.candidates, proposal.known, sheets),
                request=request,
                # What data it is about stands in annotation.json; which files a library has read is no part of it.
                proposal={name: fact for name, fact in proposal.facts.items() if name != "data"},
            )
        return Project.open(self.folder, self.library)

    def _waits_for_answers(self, request: str | None, *, leave_open: bool) -> bool:
        """Whether sheets of the last round are open and it was requested alike; another request may be refused."""
        last = self.rounds[-1] if self.rounds else None
        if last is None or not last.open_sheets:
            return False
        is_repeated = request is not None and last.facts["request"] == request
        if not (is_repeated or leave_open):
            raise InvalidOption(
                f"{len(last.open_sheets)} of {len(last.sheets)} sheets of round {last.number} have no answer yet. "
                "Import answers to them first, or leave them open (--leave-open)."
            )
        return is_repeated

    def _find_matches(self, sources: Sequence[str] | None) -> tuple[IntArray, IntArray]:
        """(P,) image ids and caption ids of pairs that people call positive, or that were asked about."""
        people = [name for name, source in sources_of(self.library).items() if source.official]
        names = dict.fromkeys([*people, *(sources or ())])
        judged = pa.concat_tables(_gather(self.library, self.split, name) for name in names)
        tables = [judged.filter(judged["source_positive"]).select(PAIR), self.candidates().select(PAIR)]
        image_ids, caption_ids = (np.concatenate([np.asarray(table[name]) for table in tables]) for name in PAIR)
        return image_ids, caption_ids

    @property
    def checksum(self) -> str:
        """By which its rounds know it: of all that stays as they come."""
        return str(seal(self._facts)["checksum"])

    @property
    def _facts(self) -> dict[str, Any]:
        facts = {"name": self.name, "scheme": self.scheme.name, "split": self.split, "seed": self.seed}
        return facts | {"data": self.data}

    def _write_facts(self, *, rounds: int) -> None:
        """``annotation.json``, unless it says all of this already."""
        path, content = self.folder / PROJECT, seal(self._facts | {"rounds": rounds})
        if not path.is_file() or read_json(path) != content:
            write_json(path, content)

    def add_answers(self, paths: Iterable[str | Path], form: str = "jsonl") -> Project:
        """Add what people answered, all files or, where any line is not in order, none.

        The files say which round they answer. Answers that are there already are no error.

        Args:
            paths: files of one round, as they were exported and filled in.
            form: a name of :func:`cxc_eccv.studies.asking.exchange.formats`.

        Raises:
            MalformedSource: an answer to no question of the round, or another one than before; with both places.
        """
        if form not in formats():
            raise UnknownName("format", form, formats())
        files = [Path(path) for path in paths]
        with self._hold():
            answered = Project.open(self.folder, self.library)._find_round(files, formats()[form])
            add_answers(answered, self.scheme, files, form)
        return Project.open(self.folder, self.library)

    def _find_round(self, files: Sequence[Path], form: Format) -> Round:
        """The round that the files answer; where they do not say it, the last."""
        numbers = {asked.facts["questionnaire"]: asked.number for asked in self.rounds}
        answered: dict[int, Path] = {}
        for file in files:
            try:
                _, record = next(form.read(file, self.scheme), ("", {}))
            except DataError:  # what is wrong with it is said where all of it is read
                record = {}
            answered.setdefault(numbers.get(str(record.get("questionnaire")), len(self.rounds)), file)
        if len(answered) > 1:
            places = ", ".join(f"{file} round {number}" for number, file in sorted(answered.items()))
            raise InvalidOption(f"these answer several rounds: {places}. Import the files of each by themselves.")
        return self.round(next(iter(answered), None))

    def round(self, number: int | None = None) -> Round:
        """A round by its number; the last where none is given."""
        wanted = len(self.rounds) if number is None else number
        if not self.rounds:
            raise InvalidOption(f"{self.folder} has no round yet; cxc-eccv annotate propose makes the first")
        if not 1 <= wanted <= len(self.rounds):
            raise InvalidOption(f"{self.folder} has no round {wanted}; choose one from 1 to {len(self.rounds)}")
        return self.rounds[wanted - 1]

    def decide(self, by_hand: Mapping[tuple[int, str], bool], least_seconds: float | None = None) -> bool:
        """Keep what somebody who looked at answers says of sheets; returns whether that changes anything.

        Args:
            by_hand: sheet, as in :meth:`questions`, and worker to whether the answers are good. A later decision takes
                the place of an earlier one.
            least_seconds: time below which a sheet is too hasty; None for what it was.

        Raises:
            InvalidOption: what :func:`cxc_eccv.studies.asking.quality.sheets.judge_sheets` raises.
        """
        with self._hold():
            before = read_checks(self.folder)
            least = before.least_seconds if least_seconds is None else least_seconds
            after = Checks(least, {**before.by_hand, **by_hand})
            answers = Project.open(self.folder, self.library).answers()
            judge_sheets(answers, after)  # raises where a sheet cannot be decided so
            if after != before:
                write_checks(self.folder, after)
            return after != before

    def merge(
        self,
        *,
        rule: str = "majority",
        version: str = "1.0.0",
        least_answers: int = 1,
        licence: str | None = None,
        citation: str | None = None,
    ) -> LabelFile:
        """Make labels of the answers, and write ``labels.parquet`` and ``README.md``.

        Answers of accepted sheets count, those included that somebody checked by hand and found good.

        Args:
            rule: of :func:`cxc_eccv.studies.annotation.labelling.settling.settle`.
            version: of the labels.
            least_answers: people who must have answered about a pair.
            licence: of the labels, an id of the Hub such as ``cc-by-4.0``.
            citation: of the labels, BibTeX.

        Raises:
            DataError: no answer counts, or too few about every pair; or a README that is not ours, or that was changed,
                stands in the folder.
        """
        terms = check_terms(licence, citation)
        with self._hold():
            now = Project.open(self.folder, self.library)
            answers = now.answers()
            judged = judge_sheets(answers, read_checks(self.folder))
            accepted = accept(answers, judged)
            if not accepted.num_rows:
                why = f"none of {len(judged)} answered sheets is accepted" if judged else "nobody has answered yet"
                raise DataError(f"{self.folder}: {why}; import answers first, or decide about sheets: annotate check")
            table = settle(accepted, self.scheme, rule, least_answers=least_answers)
            # Those of images and captions, whatever else a library has read.
            files = {name: sha for name, sha in self.library.files_used().items() if name.startswith("karpathy")}
            proposals = [asked.facts["proposal"] for asked in now.rounds]
            facts = {
                "name": self.name,
                "version": version,
                "split": self.split,
                "rule": rule,
                "least_answers": least_answers,
                "scheme": self.scheme.name,
                "sheets": dict(sorted(Counter(sheet.verdict for sheet in judged).items())),
                "data": {**self.data, "files": files},
                "models": sorted({name for proposal in proposals for name in proposal["models"]}),
                "rounds": [{name: it[name] for name in ("strategy", "options", "counts")} for it in proposals],
                **describe_labels(answers, accepted, table),
                **terms,
            }
            card, path = label_card(facts, table), self.folder / CARD
            if path.is_file() and not is_unchanged(path.read_text(encoding="utf-8", errors="replace")):
                raise DataError(
                    f"{path} is not the card that the last merge wrote, or was changed since. Move it away, and take "
                    "over from it what you want to keep; --license and --citation name terms and paper."
                )
            labels = write_labels(self.folder / LABELS, table, facts)
            with replaced_file(path) as part:
                part.write_text(card, encoding="utf-8", newline="\n")
            return labels

    def candidates(self) -> pa.Table:
        """Those of all rounds."""
        return pa.concat_tables([CANDIDATES.empty_table(), *(asked.candidates for asked in self.rounds)])

    def questions(self) -> list[list[Question]]:
        """The sheets of all rounds, one after the other."""
        return [sheet for asked in self.rounds for sheet in asked.sheets]

    def answers(self) -> pa.Table:
        """Those of all rounds; ``sheet`` is the place in :meth:`questions`."""
        tables, before = [ANSWERS.empty_table()], 0
        for asked in self.rounds:
            sheets = pc.add(asked.answers["sheet"], pa.scalar(before, pa.int32()))
            tables.append(asked.answers.set_column(0, ANSWERS.field("sheet"), sheets))
            before += len(asked.sheets)
        return pa.concat_tables(tables)

    @contextmanager
    def _hold(self) -> Iterator[None]:
        """Against other processes at a step of this project, which ends by counting the rounds that there are.

        A process that dies before leaves one too few, never one too many: a round that is counted was there.
        """
        with locked(self.folder / ROUNDS, PATIENCE):
            yield
            self._write_facts(rounds=len(round_numbers(self.folder)))


def _refuse_lost(folder: Path, found: int, counted: int) -> None:
    if found < counted:
        raise SourceMissing(f"{folder / ROUNDS} holds {found} of the {counted} rounds that {PROJECT} counts; {RESTORE}")


def compare_labels(labels: LabelFile, library: Library) -> pa.Table:
    """Labelled pairs that official sources judge too.

    A row per pair and source: ``image_id``, ``caption_id``, ``positive`` as labelled, ``source``, ``source_positive``.
    """
    labelled, tables = labels.table.select([*PAIR, "positive"]), []
    for name in official_sources():
        both = labelled.join(_gather(library, labels.split, name), PAIR, join_type="inner")
        tables.append(both.sort_by([(column, "ascending") for column in PAIR]))
    return pa.concat_tables(tables)


def _gather(library: Library, split: str, source: str) -> pa.Table:
    """What a source says of images with captions: a row per pair, positive where it is in either direction."""
    tables = [SAID.empty_table()]
    for direction in ("i2t", "t2i"):
        said = gather(library, split, direction, source, Thresholds())
        if said is not None:
            sides = (said.queries, said.items) if direction == "i2t" else (said.items, said.queries)
            tables.append(pa.table([*sides, said.positive], schema=SAID))
    found = pa.concat_tables(tables).group_by(PAIR).aggregate([("source_positive", "max")]).rename_columns(SAID.names)
    return found.add_column(2, "source", pa.array([source] * found.num_rows, pa.string()))


def _identify(runs: Mapping[str, Run], **options: Any) -> str | None:  # noqa: ANN401 - of any strategy
    """A hash of what is asked for, by which the same request is known again; None where a run is of no file."""
    if any(run.path is None for run in runs.values()):
        return None
    content = {"models": {name: run.facts() for name, run in runs.items()}, **options}
    given = {name: value for name, value in content.items() if value is not None}
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=_to_json).encode()).hexdigest()


def _to_json(option: Any) -> Any:  # noqa: ANN401 - a table, ids or a classifier
    if isinstance(option, pa.Table):
        return option.to_pydict()
    return option.tolist() if isinstance(option, np.ndarray) else option.facts
