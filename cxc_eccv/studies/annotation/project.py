"""An annotation project: all that was proposed, asked and answered, in one folder that can be committed.

::

    FOLDER/annotation.json              name, scheme, split, seed, the data it is about, and how many rounds there are
    FOLDER/rounds/1/round.json          how its pairs were proposed, and hashes of the tables beside it
    FOLDER/rounds/1/candidates.parquet  pairs to ask about, with who proposed them
    FOLDER/rounds/1/known.parquet       pairs that were proposed and are known to match, unless they are asked about too
    FOLDER/rounds/1/questions.parquet   the sheets, known pairs among the candidates
    FOLDER/rounds/1/answers.parquet     what was imported so far
    FOLDER/checks.json                  what somebody decided about sheets and people
    FOLDER/labels.parquet, README.md    what follows from the answers of all rounds

A step ends in one rename for each file that it changes, so that a process that dies leaves a whole project. Equal
steps give equal bytes, and a file that was changed since is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence import Thresholds, gather, label_sources, official_sources, sources_of
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.sources.reading import read_json, shown
from cxc_eccv.studies.annotation.labelling.card import check_terms, is_unchanged, join_answers, label_card
from cxc_eccv.studies.annotation.proposing.candidates import CANDIDATES, propose
from cxc_eccv.studies.annotation.rounds import (
    RESTORE,
    ROUNDS,
    Round,
    read_round,
    round_numbers,
    seal,
    store,
    unseal,
    write_round,
)
from cxc_eccv.studies.asking.answers import SAID, SCHEMA, Unfinished, read_answers
from cxc_eccv.studies.asking.exchange import find_format, find_images
from cxc_eccv.studies.asking.quality.sheets import (
    BY_HAND,
    REJECTED,
    SheetQuality,
    accept,
    judge_sheets,
    read_checks,
    write_checks,
)
from cxc_eccv.studies.asking.questionnaire import Handout, describe_question, list_files
from cxc_eccv.studies.asking.questions import (
    CANDIDATES_A_SHEET,
    POSITIVE,
    Question,
    Questionnaire,
    build_practice,
    build_sheets,
)
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.studies.asking.settling import describe_labels, settle
from cxc_eccv.studies.asking.texts import Texts, read_texts
from cxc_eccv.types import IntArray
from cxc_eccv.types.strict_json import COUNT, TEXT, WHOLE
from cxc_eccv.writing import locked, refuse_unwritable, replaced_file, write_json, write_rows

PROJECT, LABELS, CARD, RATINGS = "annotation.json", "labels.parquet", "README.md", "ratings.csv"

NAME = re.compile(r"[a-z][a-z0-9_]*")

PAIR = ["image_id", "caption_id"]
SOURCE = pa.schema([("image_id", pa.int64()), ("caption_id", pa.int64()), ("source_positive", pa.bool_())])

CXC_KINDS = {("image", "caption"): "sits", ("image", "image"): "sis", ("caption", "caption"): "sts"}

DATA = {"edition": TEXT, "version": TEXT, "content": TEXT, "images": COUNT, "captions": COUNT}
FACTS = {"name": TEXT, "scheme": TEXT, "split": TEXT, "seed": WHOLE, "data": DATA, "rounds": COUNT}
"""What annotation.json says."""

PATIENCE = 60.0
"""Seconds to wait for another process that is at a step of the same project."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import, or the undoing of one, did."""

    project: Project  # as it is now
    number: int  # of the import; 0 for those of older versions
    added: int  # answers
    changed: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = ()  # answers before and after
    unfinished: tuple[Unfinished, ...] = ()
    removed: int = 0
    dropped: tuple[tuple[int, str], ...] = ()  # sheets and workers whose decisions went with their answers


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
                f"name {name!r}: use small letters, digits and _, and begin with a letter. The command line names a "
                "project after its folder; choose another folder"
            )
        if name in label_sources():
            raise InvalidOption(
                f"name {name!r} is taken by a source, as are {', '.join(label_sources())}. The command "
                "line names a project after its folder; choose another folder"
            )
        able = {own.name: own for own in schemes().values() if own.in_projects}
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
        """The project in a folder, every file of it checked."""
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
        rounds: list[Round] = []
        for number in numbers:
            first = rounds[-1].numbers.stop if rounds else 0
            rounds.append(read_round(folder, number, project.checksum, scheme, first))
        return replace(project, rounds=tuple(rounds))

    def propose(
        self,
        runs: Mapping[str, Run],
        *,
        strategy: str | None = None,
        size: int = CANDIDATES_A_SHEET,
        leave_open: bool = False,
        without_reasons: bool = False,
        sources: Sequence[str] | None = None,
        **options: Any,  # noqa: ANN401 - of cxc_eccv.studies.annotation.proposing.propose
    ) -> Project:
        """Add a round: candidates that no earlier round asked about, in sheets with known pairs among them.

        The same request once more, while sheets of the round that it made are open, changes nothing: it may be the
        repetition of one that was killed after its round was written. Pairs of sheets whose answers were all rejected
        are open again.

        Args:
            runs: name of each model to its run.
            strategy: how pairs are chosen; None for ``eccv``, and for ``cxc`` where the scheme asks about two images
                or two captions.
            size: candidates of a sheet.
            leave_open: go on although sheets have no answer; they can still be answered.
            without_reasons: do not ask why a match is not whole, as in ECCV Caption's second stage.
            sources: whose labels are known; None for those of all people, label files of the library among them.
            **options: of :func:`cxc_eccv.studies.annotation.proposing.propose`.
        """
        strategy = strategy or ("eccv" if self.scheme.sides == ("image", "caption") else "cxc")
        chosen = {"strategy": strategy, "size": size, "sources": sources, **options}
        request = _identify(runs, **chosen, **({"without_reasons": True} if without_reasons else {}))
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
            sides=self.scheme.sides,
            asked=self._asked_pairs() if self.rounds else None,
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
            invalid=self._invalid,
            rated=self._find_rated(),
            sides=self.scheme.sides,
            size=size,
            seed=self.seed + number - 1,
        )
        questionnaire = Questionnaire(self.scheme, sheets, self.rounds[-1].numbers.stop if self.rounds else 0)
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
                questionnaire,
                (proposal.candidates, proposal.known),
                request=request,
                proposal=proposal.facts,
                **({"without_reasons": True} if without_reasons else {}),
            )
        return Project.open(self.folder, self.library)

    def _waits_for_answers(self, request: str | None, *, leave_open: bool) -> bool:
        """Whether sheets of the last round are open and it was requested alike; another request may be refused."""
        last = self.rounds[-1] if self.rounds else None
        still = [number for number in self.open_sheets() if last is not None and number in last.numbers]
        if last is None or not still:
            return False
        is_repeated = request is not None and last.facts["request"] == request
        if not (is_repeated or leave_open):
            raise InvalidOption(
                f"{len(still)} of {len(last.sheets)} sheets of round {last.number} have no answer yet. "
                "Import answers to them first, or leave them open (--leave-open)."
            )
        return is_repeated

    def _asked_pairs(self) -> pa.Table:
        """Candidates of all rounds but of sheets whose answers were all rejected."""
        judged = self.judge()
        rejected = {own.sheet for own in judged} - {own.sheet for own in judged if own.verdict != REJECTED}
        sheets = (sheet for number, sheet in enumerate(self.questions()) if number in rejected)
        again = {(own.image_id, own.caption_id) for sheet in sheets for own in sheet}
        table = self.candidates().select(PAIR)
        pairs = zip(*(table[name].to_pylist() for name in PAIR), strict=True)
        return table.filter(pa.array([pair not in again for pair in pairs], pa.bool_()))

    def _find_matches(self, sources: Sequence[str] | None) -> tuple[IntArray, IntArray]:
        """(P,) image ids and caption ids of pairs that people call positive, or that were asked about."""
        if self.scheme.sides != ("image", "caption"):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        people = [name for name, source in sources_of(self.library).items() if source.official]
        names = dict.fromkeys([*people, *(sources or ())])
        judged = pa.concat_tables(_gather(self.library, self.split, name) for name in names)
        tables = [judged.filter(judged["source_positive"]).select(PAIR), self.candidates().select(PAIR)]
        image_ids, caption_ids = (np.concatenate([np.asarray(table[name]) for table in tables]) for name in PAIR)
        return image_ids, caption_ids

    def _find_rated(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]] | None:
        """Pairs that CxC rates as high and as low as the scheme wants of known ones; None where it rates none."""
        if self.scheme.rated_gold is None or self.split not in ("validation", "test"):
            return None
        try:
            table = self.library.cxc(CXC_KINDS[self.scheme.sides], self.split)
        except SourceMissing:
            return None
        high, low = self.scheme.rated_gold
        ratings = np.asarray(table["rating"])
        # SITS has the caption on the left.
        names = ("right_id", "left_id") if CXC_KINDS[self.scheme.sides] == "sits" else ("left_id", "right_id")
        ids = [np.asarray(table[name]) for name in names]
        valid = ~np.any([np.isin(own, invalid) for own in ids for invalid in self._invalid], axis=0)
        first, second = ((ids[0][rows & valid], ids[1][rows & valid]) for rows in (ratings >= high, ratings <= low))
        return first, second

    @property
    def _invalid(self) -> tuple[IntArray, IntArray]:
        """Image ids and caption ids that describe nothing."""
        return self.library.invalid_ids("image"), self.library.invalid_ids("caption")

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
        """Write questions for people, as a page or for a tool; nothing in them tells the known pairs.

        Args:
            folder: where to write; other files in it stay.
            form: a name of :func:`cxc_eccv.studies.asking.exchange.formats`.
            images: see :func:`cxc_eccv.studies.asking.exchange.find_images`.
            sheets: their numbers; None for all of the last round.
            texts: folder of :func:`cxc_eccv.studies.asking.texts.read_texts`.
            practice: questions on the page that come first and are not saved.
            worker: whose sheets these are, filled in.
        """
        numbers = self.round().numbers if sheets is None else sheets
        rounds = [own for own in self.rounds if set(own.numbers) & set(numbers)] or [self.round()]
        scheme, sheets_asked = rounds[0].questionnaire.scheme, self.questions()
        content = self.library.karpathy(self.split)
        avoid = {(own.image_id, own.caption_id) for sheet in sheets_asked for own in sheet}
        first = build_practice(content, practice, avoid, invalid=self._invalid, seed=self.seed) if practice else []
        shown_sheets = [sheet for number, sheet in enumerate(sheets_asked) if number in set(numbers)]
        questions = [*(own for sheet in shown_sheets for own in sheet), *first]
        spoken, own_texts = (scheme, Texts()) if texts is None else read_texts(texts, scheme)
        addresses = find_images(images, list_files(questions, scheme), self.library, self.split)
        practised = [(describe_question(own, scheme, addresses), own.role == POSITIVE) for own in first]
        questionnaires = [own.questionnaire for own in rounds]
        handout = Handout(spoken, own_texts, worker, practised)
        return find_format(form).export(questionnaires, addresses, folder, numbers, handout)

    def add_answers(self, paths: Iterable[str | Path], form: str | None = None, *, replace: bool = False) -> Imported:
        """Add whole sheets that people answered; where any line is not in order, none.

        The files say which round they answer. Answers that are there already are no error, and another answer of the
        same person to the same question is one unless it is to ``replace`` the first. ``form`` is a name of
        :func:`cxc_eccv.studies.asking.exchange.formats`; None for that of each file's ending.
        """
        with self._hold():
            now = Project.open(self.folder, self.library)
            questionnaires = [own.questionnaire for own in now.rounds]
            latest = {key: row for own in now.rounds for key, row in own.latest.items()}
            whole = {key[:2] for key in latest}
            reading = read_answers(paths, questionnaires, form, replace=replace, whole=whole)
            number = 1 + max((row["import"] for own in now.rounds for row in own.stored), default=0)
            added, changed = [], []
            for row in reading.answers.to_pylist():
                before = latest.get((row["sheet"], row["worker"], row["pair_id"]))
                if before is None:
                    added.append(row)
                elif any(before[name] != row[name] for name in SAID):
                    if not replace:
                        file, _, where = row["origin"].partition(", ")
                        raise MalformedSource(
                            file,
                            where,
                            f"another answer of {shown(row['worker'])} about {row['pair_id']} than the one from "
                            f"{before['origin']}",
                            "one answer of a worker to a question: remove one of the two, let the new one count "
                            "(--replace), or undo the import of the other (cxc-eccv annotate undo)",
                        )
                    changed.append((before, row))
            new = [*added, *(row for _, row in changed)]
            for own in now.rounds:
                rows = [row for row in new if row["sheet"] in own.numbers]
                if rows:
                    mine = [{**row, "sheet": row["sheet"] - own.questionnaire.first, "import": number} for row in rows]
                    store(own.folder, own.questionnaire.id, [*own.stored, *mine])
        after = Project.open(self.folder, self.library)
        return Imported(after, number, len(added), tuple(changed), reading.unfinished)

    def undo(self, number: int | None = None) -> Imported:
        """Take the answers of an import away, the last where none is named; what they replaced counts again."""
        with self._hold():
            now = Project.open(self.folder, self.library)
            numbers = {row["import"] for own in now.rounds for row in own.stored}
            wanted = max(numbers, default=None) if number is None else number
            if wanted is None or wanted not in numbers:
                there = ", ".join(map(str, sorted(numbers))) or "none"
                raise InvalidOption(f"{self.folder} has no import {'' if wanted is None else wanted}; it has: {there}")
            removed = 0
            for own in now.rounds:
                kept = [row for row in own.stored if row["import"] != wanted]
                removed += len(own.stored) - len(kept)
                if len(kept) < len(own.stored):
                    store(own.folder, own.questionnaire.id, kept)
            after, checks = Project.open(self.folder, self.library), read_checks(self.folder)
            answers = after.answers()
            left = set(zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True))
            dropped = tuple(sorted(checks.by_hand.keys() - left))
            if dropped:
                by_hand = {key: good for key, good in checks.by_hand.items() if key in left}
                write_checks(self.folder, replace(checks, by_hand=by_hand))
        return Imported(after, wanted, 0, removed=removed, dropped=dropped)

    def round(self, number: int | None = None) -> Round:
        """A round by its number; the last where none is given."""
        wanted = len(self.rounds) if number is None else number
        if not self.rounds:
            raise InvalidOption(f"{self.folder} has no round yet; cxc-eccv annotate propose makes the first")
        if not 1 <= wanted <= len(self.rounds):
            raise InvalidOption(f"{self.folder} has no round {wanted}; choose one from 1 to {len(self.rounds)}")
        return self.rounds[wanted - 1]

    def decide(
        self,
        by_hand: Mapping[tuple[int, str], bool] | None = None,
        *,
        workers: Mapping[str, bool] | None = None,
        **settings: Any,  # noqa: ANN401 - least_seconds, least_accuracy and straight of Checks
    ) -> list[tuple[SheetQuality, SheetQuality]]:
        """Keep what somebody decided about sheets and people; returns the sheets that it changes, before and after."""
        with self._hold():
            before, answers = read_checks(self.folder), Project.open(self.folder, self.library).answers()
            for worker in (workers or {}).keys() - set(answers["worker"].to_pylist()):
                raise InvalidOption(f"worker {shown(worker)} has no answers here")
            rejected = {name for name, counts in (workers or {}).items() if not counts}
            after = replace(
                before,
                by_hand={**before.by_hand, **(by_hand or {})},
                rejected_workers=before.rejected_workers - (workers or {}).keys() | rejected,
                **{name: value for name, value in settings.items() if value is not None},
            )
            doubtful = (own for own in judge_sheets(answers, after) if own.verdict == BY_HAND)
            good = {(own.sheet, own.worker): True for own in doubtful if (workers or {}).get(own.worker)}
            after = replace(after, by_hand={**good, **after.by_hand})
            judged = judge_sheets(answers, after)  # raises where a sheet cannot be decided so
            if after != before:
                write_checks(self.folder, after)
            pairs = zip(judge_sheets(answers, before), judged, strict=True)
            return [(old, new) for old, new in pairs if (old.verdict, old.checked) != (new.verdict, new.checked)]

    def judge(self) -> list[SheetQuality]:
        """A verdict on every answered sheet."""
        return judge_sheets(self.answers(), read_checks(self.folder))

    def open_sheets(self, people: int = 1) -> list[int]:
        """Numbers of the sheets that fewer people have answered, rejected answers left out."""
        counts = Counter(own.sheet for own in self.judge() if own.verdict != REJECTED)
        return [number for number in range(len(self.questions())) if counts[number] < people]

    def merge(
        self,
        *,
        rule: str | None = None,
        version: str = "1.0.0",
        least_answers: int = 1,
        licence: str | None = None,
        citation: str | None = None,
    ) -> LabelFile:
        """Make labels of the answers, and write ``labels.parquet`` and ``README.md``.

        Answers of accepted sheets count, those included that somebody checked by hand and found good.

        Args:
            rule: of :func:`cxc_eccv.studies.asking.settling.settle`.
            version: of the labels.
            least_answers: people who must have answered about a pair.
            licence: of the labels, an id of the Hub such as ``cc-by-4.0``.
            citation: of the labels, BibTeX.
        """
        terms = check_terms(licence, citation)
        if self.scheme.sides != ("image", "caption"):
            raise InvalidOption(f"scheme {self.scheme.name} makes ratings, and no labels: write_ratings")
        with self._hold():
            now = Project.open(self.folder, self.library)
            answers, judged, accepted, table = now._settle(rule, least_answers)
            # Those of images and captions, whatever else a library has read.
            files = {name: sha for name, sha in self.library.files_used().items() if name.startswith("karpathy")}
            proposals = [asked.facts["proposal"] for asked in now.rounds]
            facts = {
                "name": self.name,
                "version": version,
                "split": self.split,
                "rule": rule or self.scheme.rule,
                "least_answers": least_answers,
                "scheme": self.scheme.name,
                "sheets": dict(sorted(Counter(sheet.verdict for sheet in judged).items())),
                "data": {**self.data, "files": files},
                "models": sorted({name for proposal in proposals for name in proposal["models"]}),
                "rounds": [{name: it[name] for name in ("strategy", "options", "counts")} for it in proposals],
                **describe_labels(answers, accepted, table),
                **terms,
            }
            table = join_answers(table, accepted, [row for own in now.rounds for row in own.stored], now.candidates())
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

    def write_ratings(self, *, least_answers: int = 1) -> Path:
        """Write the mean rating of every pair of two images or two captions, in the layout of CxC's files."""
        with self._hold():
            table = Project.open(self.folder, self.library)._settle("mean", least_answers)[3]
            side = self.scheme.sides[0]
            names, rows = (f"{side}1", f"{side}2", "agg_score"), []
            files = self.library.images(self.split)
            known = dict(zip(files["image_id"].to_pylist(), files["file_name"].to_pylist(), strict=True))
            for row in table.to_pylist():
                ids = [row[name] for name in PAIR]
                shown_as = [known[own] if side == "image" else f"COCO_val2014:sentid:{own}" for own in ids]
                method = "i2i_csim" if side == "image" else "c2c_isim"
                rows.append(dict(zip(names, (*shown_as, row["rating"]), strict=True)) | {"sampling_method": method})
            return write_rows(self.folder / RATINGS, rows)

    def _settle(self, rule: str | None, least_answers: int) -> tuple[pa.Table, list[SheetQuality], pa.Table, pa.Table]:
        """All answers, verdicts on their sheets, the accepted ones, and the labels that they make."""
        answers, judged = self.answers(), self.judge()
        accepted = accept(answers, judged)
        if not accepted.num_rows:
            why = f"none of {len(judged)} answered sheets is accepted" if judged else "nobody has answered yet"
            raise DataError(f"{self.folder}: {why}; import answers first, or decide about sheets: annotate check")
        return answers, judged, accepted, settle(accepted, self.scheme, rule, least_answers=least_answers)

    def candidates(self) -> pa.Table:
        """Those of all rounds."""
        return pa.concat_tables([CANDIDATES.empty_table(), *(asked.candidates for asked in self.rounds)])

    def questions(self) -> list[Sequence[Question]]:
        """The sheets of all rounds, one after the other; the place of a sheet is its number everywhere."""
        return [sheet for asked in self.rounds for sheet in asked.sheets]

    def answers(self) -> pa.Table:
        """Those of all rounds that count; ``sheet`` is the place in :meth:`questions`."""
        return pa.concat_tables([SCHEMA.empty_table(), *(asked.answers for asked in self.rounds)])

    @contextmanager
    def _hold(self) -> Iterator[None]:
        """Against other processes at a step of this project, which ends by counting the rounds that there are."""
        with locked(self.folder / ROUNDS, PATIENCE):
            yield
            self._write_facts(rounds=len(round_numbers(self.folder)))


def assign_sheets(
    sheets: Sequence[int], people: Sequence[str], each: int, done: Collection[tuple[int, str]] = ()
) -> dict[str, list[int]]:
    """Person to sheets, so that so many people answer each, and all about as many; nobody what they have done."""
    if not 1 <= each <= len(people) or len(set(people)) < len(people):
        raise InvalidOption(f"{each} people a sheet out of {', '.join(people)}: give as many different names, or more")
    assigned: dict[str, list[int]] = {person: [] for person in people}
    for sheet in sheets:
        answered = {worker for number, worker in done if number == sheet}
        left = [person for person in people if person not in answered]
        left.sort(key=lambda person: len(assigned[person]))
        for person in left[: max(0, each - len(answered))]:
            assigned[person].append(sheet)
    return assigned


def _refuse_lost(folder: Path, found: int, counted: int) -> None:
    if found < counted:
        raise SourceMissing(f"{folder / ROUNDS} holds {found} of the {counted} rounds that {PROJECT} counts; {RESTORE}")


def compare_labels(labels: LabelFile, library: Library) -> pa.Table:
    """Labelled pairs that official sources judge too."""
    labelled, tables = labels.table.select([*PAIR, "positive"]), []
    for name in official_sources():
        both = labelled.join(_gather(library, labels.split, name), PAIR, join_type="inner")
        tables.append(both.sort_by([(column, "ascending") for column in PAIR]))
    return pa.concat_tables(tables)


def _gather(library: Library, split: str, source: str) -> pa.Table:
    """What a source says of images with captions: a row per pair, positive where it is in either direction."""
    tables = [SOURCE.empty_table()]
    for direction in ("i2t", "t2i"):
        judged = gather(library, split, direction, source, Thresholds())
        if judged is not None:
            sides = (judged.queries, judged.items) if direction == "i2t" else (judged.items, judged.queries)
            tables.append(pa.table([*sides, judged.positive], schema=SOURCE))
    found = pa.concat_tables(tables).group_by(PAIR).aggregate([("source_positive", "max")]).rename_columns(SOURCE.names)
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
