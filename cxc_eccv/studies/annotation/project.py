"""An annotation project: pairs are proposed, people are asked, and their answers become labels.

Its folder, which can be committed, holds the three files of :mod:`cxc_eccv.studies.annotation.folder`, and what
:func:`cxc_eccv.studies.annotation.merging.merge_labels` makes of them::

    FOLDER/labels.parquet, README.md    the labels from the answers of all rounds, and their card
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.sources.reading import shown
from cxc_eccv.studies.annotation.folder import (
    ANSWERS,
    DECISIONS,
    ROUNDS,
    Round,
    Row,
    add_answers,
    add_decisions,
    add_round,
    add_words,
    hold,
    read_decisions,
    read_rounds,
)
from cxc_eccv.studies.annotation.folder import read_answers as read_kept
from cxc_eccv.studies.annotation.known import PAIR, find_matches, find_rated
from cxc_eccv.studies.annotation.proposing import CANDIDATES, Proposal, propose
from cxc_eccv.studies.asking.answers import (
    COMPARED,
    SCHEMA,
    Unfinished,
    differing_answers,
    identify_worker,
    read_answers,
)
from cxc_eccv.studies.asking.exchange import find_format, find_images
from cxc_eccv.studies.asking.quality import (
    BY_HAND,
    REJECTED,
    SheetQuality,
    judge_sheets,
)
from cxc_eccv.studies.asking.questionnaire import Handout, Texts, describe_question, list_files, read_texts
from cxc_eccv.studies.asking.questions import (
    CANDIDATES_A_SHEET,
    POSITIVE,
    Question,
    Questionnaire,
    build_practice,
    build_sheets,
)
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.types import IntArray
from cxc_eccv.writing import refuse_unwritable

LABELS, CARD = "labels.parquet", "README.md"

NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    project: Project  # after the import
    added: int  # answers
    changed: tuple[tuple[Row, Row], ...] = ()  # answers before and after
    unfinished: tuple[Unfinished, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """The state of a project; each step writes it and returns the state after it.

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
    library: Library  # the raw sources
    name: str  # of the source of labels that it makes
    scheme: Scheme
    split: str
    seed: int  # seed of all draws; the sheets of round N are drawn with seed + N - 1
    data: Mapping[str, Any]  # edition, fingerprint and sizes of the split
    rounds: tuple[Round, ...] = ()  # in order; none before the first is proposed
    kept: Sequence[Row] = ()  # answers that count; sheets and people in the order in which they were answered

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
        """Start a project without rounds; writes nothing before the first round is proposed.

        Args:
            folder: folder of the project; it may hold other files.
            library: the raw sources.
            name: name of the new source of labels: lower-case letters, digits and ``_``.
            scheme: a name of :func:`cxc_eccv.studies.asking.schemes.schemes`.
            split: a split of COCO.
            seed: seed of all draws.
        """
        folder = Path(folder)
        refuse_unwritable(folder / ROUNDS, file=True)
        if (folder / ROUNDS).exists():
            raise InvalidOption(f"{folder} is an annotation project already; open it, or choose another folder")
        for file in (ANSWERS, DECISIONS, LABELS):
            if (folder / file).exists():
                raise InvalidOption(f"{folder} has {file} but not the {ROUNDS} that it belongs to; restore that file")
        advice = "The command line names a project after its folder; choose another folder"
        if not NAME.fullmatch(name):
            form = "lower-case letters, digits and _, and start with a letter"
            raise InvalidOption(f"name {name!r}: use {form}. {advice}")
        if name in label_sources():
            raise InvalidOption(f"name {name!r} is taken by a source, as are {', '.join(label_sources())}. {advice}")
        able = {each.name: each for each in schemes().values() if each.in_projects}
        if scheme not in able:
            raise UnknownName("scheme", scheme, able)
        content = library.karpathy(split)
        data = {
            "edition": library.edition,
            "version": library.catalog.version,
            "content": content.fingerprint,
            "images": content.image_ids.size,
            "captions": content.caption_ids.size,
        }
        return cls(folder, library, name, able[scheme], split, seed, data)

    @classmethod
    def open(cls, folder: str | Path, library: Library) -> Project:
        """Open the project in a folder, and check all its files."""
        folder = Path(folder)
        facts, rounds = read_rounds(folder)
        if not rounds:
            raise SourceMissing(
                f"{folder} has no round in {ROUNDS}; cxc-eccv annotate propose makes an annotation project"
            )
        data, content = facts["data"], library.karpathy(facts["split"])
        if data["content"] != content.fingerprint:
            raise DataError(
                f"{folder} is about the split {facts['split']!r} of edition {data['edition']}, with {data['images']} "
                f"images and {data['captions']} captions, but this data is another: edition {library.edition}, with "
                f"{content.image_ids.size} images and {content.caption_ids.size} captions. Give the project's data "
                "(--data-dir), or start another project."
            )
        scheme = schemes()[facts["scheme"]]
        kept = read_kept(folder, rounds)
        return cls(folder, library, facts["name"], scheme, facts["split"], facts["seed"], data, rounds, kept)

    def propose(
        self,
        runs: Mapping[str, Run],
        *,
        strategy: str | None = None,
        size: int = CANDIDATES_A_SHEET,
        leave_open: bool = False,
        without_reasons: bool = False,
        sources: Sequence[str] | None = None,
        limit: int | None = None,
        **options: Any,  # noqa: ANN401 - of cxc_eccv.studies.annotation.proposing.propose
    ) -> Project:
        """Add a round: candidates that no earlier round asked about, in sheets with known pairs among them.

        Pairs of sheets with only rejected answers can be proposed again.

        Args:
            runs: name of each model to its run.
            strategy: name of the strategy; None for ``eccv``, or ``cxc`` if the scheme asks about two images or two
                captions.
            size: candidates of a sheet.
            leave_open: add the round although sheets have no answer; they can still be answered.
            without_reasons: do not ask for reasons, as in ECCV Caption's second stage.
            sources: sources of known labels; None for all official ones and the library's label files.
            limit: only the first images by id and their captions, for a pilot; None for all.
            **options: options of :func:`cxc_eccv.studies.annotation.proposing.propose`.
        """
        strategy = strategy or ("eccv" if self.scheme.sides == ("image", "caption") else "cxc")
        if not leave_open:
            self._refuse_open()
        proposal = propose(
            runs,
            self.library,
            self.split,
            strategy=strategy,
            seed=self.seed,
            sources=sources,
            sides=self.scheme.sides,
            asked=self._asked_pairs() if self.rounds else None,
            limit=limit,
            **options,
        )
        questionnaire = self._build_questionnaire(
            proposal, sources, size, self.library.karpathy(self.split).first(limit)
        )
        if without_reasons:
            questionnaire = replace(questionnaire, scheme=self.scheme.without_reasons())
        number = len(self.rounds) + 1
        facts = {"name": self.name, "scheme": self.scheme.name, "split": self.split, "seed": self.seed}
        with hold(self.folder):
            if len(read_rounds(self.folder)[1]) >= number:
                raise DataError(
                    f"another process added round {number} to {self.folder} in the meantime, so this one was not "
                    "written. Look at that round, then propose again"
                )
            add_round(self.folder, number, facts | {"data": dict(self.data)}, proposal, questionnaire)
        return Project.open(self.folder, self.library)

    def find_changed_labels(self) -> list[str]:
        """Names of the label files that the last round reads changed, or not at all, since the round before."""
        before, after = ([{}, {}, *(each.proposal["options"].get("labels", {}) for each in self.rounds)])[-2:]
        return [name for name, sha in before.items() if name != self.name and after.get(name) != sha]

    def _build_questionnaire(
        self, proposal: Proposal, sources: Sequence[str] | None, size: int, content: KarpathySplit
    ) -> Questionnaire:
        """The sheets of a new round; DataError if nothing is left to ask."""
        if not proposal.candidates.num_rows:
            counts = proposal.facts["counts"]
            raise DataError(
                f"strategy {proposal.facts['strategy']} has no pair left to ask about: of {counts['distinct']:,} "
                f"proposed pairs, {counts['known_positive']:,} are known to match, {counts['judged_negative']:,} known "
                f"not to match, and {counts['asked_before']:,} were asked before. Use more models, more queries or a "
                "larger depth, or another strategy."
            )
        every = self.library.karpathy(self.split)
        absent = np.setdiff1d(every.image_ids, content.image_ids), np.setdiff1d(every.caption_ids, content.caption_ids)
        unwanted = np.union1d(self._invalid[0], absent[0]), np.union1d(self._invalid[1], absent[1])
        sheets = build_sheets(
            proposal.candidates,
            content,
            positive=find_matches(self.library, self.split, self.scheme, sources, self.candidates()),
            is_near=proposal.is_near,
            invalid=self._invalid,
            rated=find_rated(self.library, self.split, self.scheme, unwanted),
            sides=self.scheme.sides,
            size=size,
            seed=self.seed + len(self.rounds),
        )
        return Questionnaire(self.scheme, sheets, self.rounds[-1].numbers.stop if self.rounds else 0)

    def _refuse_open(self) -> None:
        """Raise InvalidOption if sheets of the last round have no answer."""
        for last in self.rounds[-1:]:
            still = set(last.numbers) & set(self.open_sheets())
            if still:
                raise InvalidOption(
                    f"{len(still)} of {len(last.sheets)} sheets of round {last.number} have no answer yet. "
                    "Import answers to them first, or leave them open (--leave-open)."
                )

    def _asked_pairs(self) -> pa.Table:
        """Candidates of all rounds, without those of sheets with only rejected answers."""
        verdicts: dict[int, set[str]] = {}
        for each in self.judge():
            verdicts.setdefault(each.sheet, set()).add(each.verdict)
        rejected = [sheet for number, sheet in enumerate(self.questions()) if verdicts.get(number) == {REJECTED}]
        again = {(question.image_id, question.caption_id) for sheet in rejected for question in sheet}
        table = self.candidates().select(PAIR)
        pairs = zip(*(table[name].to_pylist() for name in PAIR), strict=True)
        return table.filter(pa.array([pair not in again for pair in pairs], pa.bool_()))

    @property
    def _invalid(self) -> tuple[IntArray, IntArray]:
        """The invalid image ids and caption ids."""
        return self.library.invalid_ids("image"), self.library.invalid_ids("caption")

    def export(
        self,
        folder: str | Path,
        form: str = "html",
        *,
        images: str | Path = "coco",
        sheets: Collection[int] | None = None,
        texts: str | Path | None = None,
        practice: int = 0,
        worker: str = "",
    ) -> list[Path]:
        """Write questions for people, as a page or for a tool; they do not reveal the known pairs.

        Args:
            folder: folder to write to; other files in it are kept.
            form: a name of :func:`cxc_eccv.studies.asking.exchange.formats`.
            images: as for :func:`cxc_eccv.studies.asking.exchange.find_images`.
            sheets: numbers of the sheets; None for all of the last round.
            texts: folder for :func:`cxc_eccv.studies.asking.questionnaire.read_texts`.
            practice: number of questions to practise on, which come first and are not saved.
            worker: name of the person, filled in.
        """
        exchange_format = find_format(form)
        if not (exchange_format.by_sheet or worker):
            raise InvalidOption(
                f"--format {form}: name people (--people), for a project each; one project hands its tasks out in turn"
            )
        numbers = self.rounds[-1].numbers if sheets is None else sheets
        rounds = [each for each in self.rounds if set(each.numbers) & set(numbers)] or [self.rounds[-1]]
        scheme, sheets_asked = rounds[0].questionnaire.scheme, self.questions()
        shown_scheme, page_texts = (scheme, Texts()) if texts is None else read_texts(texts, scheme)
        first = self._build_practice(practice) if practice else []
        shown_sheets = [sheet for number, sheet in enumerate(sheets_asked) if number in set(numbers)]
        questions = [*(question for sheet in shown_sheets for question in sheet), *first]
        addresses = find_images(images, list_files(questions, scheme), self.library, self.split)
        practised = [(describe_question(question, scheme, addresses), question.role == POSITIVE) for question in first]
        handout = Handout(shown_scheme, page_texts, worker, practised)
        questionnaires = [each.questionnaire for each in rounds]
        written = exchange_format.export(questionnaires, addresses, folder, numbers, handout)
        worker = identify_worker(worker) if exchange_format.by_sheet else ""  # Label Studio has other names for people
        before = self.find_words((number, worker) for number in numbers)
        new = [number for number, words in zip(numbers, before, strict=True) if words != handout.words]
        if new:
            with hold(self.folder):
                add_words(self.folder, new, worker, handout.words)
        return written

    def find_words(self, sheets: Iterable[tuple[int, str]]) -> list[Mapping[str, Any]]:
        """The words in which each sheet was given to a person, as :attr:`Handout.words` has them."""
        words = read_decisions(self.folder).words
        schemes_of = {number: each.questionnaire.scheme for each in self.rounds for number in each.numbers}
        return [
            words.get((sheet, worker)) or words.get((sheet, "")) or Handout(schemes_of[sheet]).words
            for sheet, worker in sheets
        ]

    def _build_practice(self, number: int) -> list[Question]:
        return build_practice(
            self.library.karpathy(self.split),
            number,
            {(question.image_id, question.caption_id) for sheet in self.questions() for question in sheet},
            positive=find_matches(self.library, self.split, self.scheme, None, self.candidates()),
            invalid=self._invalid,
            rated=find_rated(self.library, self.split, self.scheme, self._invalid),
            sides=self.scheme.sides,
            seed=self.seed,
        )

    def add_answers(self, paths: Iterable[str | Path], form: str | None = None, *, replace: bool = False) -> Imported:
        """Add complete answered sheets, or nothing if any line is wrong.

        Answers that were imported before are ignored. A different answer of the same person to the same question is an
        error, unless ``replace`` lets the new one count. ``form`` is a name of
        :func:`cxc_eccv.studies.asking.exchange.formats`; None to tell it by the suffix of each file.
        """
        with hold(self.folder):
            now = Project.open(self.folder, self.library)
            latest = {(row["sheet"], row["worker"], row["pair_id"]): row for row in now.kept}
            whole = {key[:2] for key in latest}
            questionnaires = [each.questionnaire for each in now.rounds]
            reading = read_answers(paths, questionnaires, form, replace=replace, whole=whole)
            added, changed = [], []
            for row in reading.answers.to_pylist():
                before = latest.get((row["sheet"], row["worker"], row["pair_id"]))
                if before is None:
                    added.append(row)
                elif any(before[name] != row[name] for name in COMPARED):
                    if not replace:
                        file = row["origin"].partition(", ")[0]
                        raise differing_answers(file, row, before, "or let the new one count (--replace)")
                    changed.append((before, row))
            add_answers(now.folder, [*added, *(row for _, row in changed)])
        return Imported(Project.open(self.folder, self.library), len(added), tuple(changed), reading.unfinished)

    def decide(
        self,
        by_hand: Mapping[tuple[int, str], bool] | None = None,
        *,
        workers: Mapping[str, bool] | None = None,
        **settings: Any,  # noqa: ANN401 - least_seconds, least_accuracy and straight of Checks
    ) -> list[tuple[SheetQuality, SheetQuality]]:
        """Record decisions about sheets and people; return the changed sheets before and after."""
        with hold(self.folder):
            before, answers = read_decisions(self.folder).checks, Project.open(self.folder, self.library).answers()
            for worker in (workers or {}).keys() - set(answers["worker"].to_pylist()):
                raise InvalidOption(f"worker {shown(worker)} has no answers in this project")
            rejected = {name for name, counts in (workers or {}).items() if not counts}
            settings = {name: value for name, value in settings.items() if value is not None}
            after = replace(
                before,
                by_hand={**before.by_hand, **(by_hand or {})},
                rejected_workers=before.rejected_workers - (workers or {}).keys() | rejected,
                **settings,
            )
            doubtful = (sheet for sheet in judge_sheets(answers, after) if sheet.verdict == BY_HAND)
            good = {(sheet.sheet, sheet.worker): True for sheet in doubtful if (workers or {}).get(sheet.worker)}
            after = replace(after, by_hand={**good, **after.by_hand})
            judged = judge_sheets(answers, after)  # raises for a sheet without answers
            if after != before:
                new = {key: good for key, good in after.by_hand.items() if before.by_hand.get(key) != good}
                add_decisions(self.folder, new, workers or {}, settings)
            pairs = zip(judge_sheets(answers, before), judged, strict=True)
            return [(old, new) for old, new in pairs if (old.verdict, old.checked) != (new.verdict, new.checked)]

    def judge(self) -> list[SheetQuality]:
        """A verdict on every answered sheet."""
        return judge_sheets(self.answers(), read_decisions(self.folder).checks)

    def open_sheets(self, people: int = 1) -> list[int]:
        """Numbers of the sheets with a question that fewer people than this answered, rejected answers left out."""
        counts = Counter((row["sheet"], row["pair_id"]) for row in self._standing())
        sheets = enumerate(self.questions())
        return [number for number, sheet in sheets if min(counts[number, one.pair_id] for one in sheet) < people]

    def finished_sheets(self) -> set[tuple[int, str]]:
        """Number of a sheet and person, for all who answered all of a sheet and are not rejected."""
        sheets, counts = self.questions(), Counter((row["sheet"], row["worker"]) for row in self._standing())
        return {key for key, number in counts.items() if number == len(sheets[key[0]])}

    def _standing(self) -> list[Row]:
        """The answers that are accepted or doubtful."""
        standing = {(sheet.sheet, sheet.worker) for sheet in self.judge() if sheet.verdict != REJECTED}
        return [row for row in self.kept if (row["sheet"], row["worker"]) in standing]

    def candidates(self) -> pa.Table:
        """The candidates of all rounds."""
        return pa.concat_tables([CANDIDATES.empty_table(), *(asked.candidates for asked in self.rounds)])

    def questions(self) -> list[Sequence[Question]]:
        """The sheets of all rounds; the index of a sheet is its number."""
        return [sheet for asked in self.rounds for sheet in asked.sheets]

    def answers(self) -> pa.Table:
        """The answers of all rounds that count; ``sheet`` is the index in :meth:`questions`."""
        rows = sorted(self.kept, key=lambda row: (row["sheet"], row["worker"]))
        return pa.Table.from_pylist(rows, schema=SCHEMA)
