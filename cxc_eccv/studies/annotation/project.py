"""An annotation project: pairs are proposed, people are asked, and their answers become labels.

Its folder, which can be committed, holds the three files of :mod:`cxc_eccv.studies.annotation.project_files`, and what
:func:`cxc_eccv.studies.annotation.merging.merge_labels` makes of them::

    FOLDER/labels.parquet, README.md    the labels from the answers of all rounds, and their card
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence.source import label_sources
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.reading import shown
from cxc_eccv.studies.annotation.project_files import (
    ANSWERS,
    DECISIONS,
    ROUNDS,
    Decision,
    Decisions,
    ProjectFacts,
    Round,
    SheetKey,
    SplitFacts,
    add_answers,
    add_decision,
    add_round,
    hold,
    measure_files,
    read_decisions,
    read_rounds,
)
from cxc_eccv.studies.annotation.project_files import read_answers as read_responses
from cxc_eccv.studies.annotation.proposing import CANDIDATES, Proposal, ProposalOptions, propose
from cxc_eccv.studies.annotation.source_labels import find_matches, find_rated
from cxc_eccv.studies.asking.answer_files import (
    Response,
    Unfinished,
    differing_answers,
    read_answers,
    tabulate,
)
from cxc_eccv.studies.asking.questions import (
    CANDIDATES_A_SHEET,
    PAIR,
    KnownPairs,
    Question,
    Questionnaire,
    build_sheets,
)
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.studies.asking.sheet_quality import BY_HAND, REJECTED, Checks, judge_sheets
from cxc_eccv.writing import refuse_unwritable

LABELS = "labels.parquet"
CARD = "README.md"

NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    project: Project  # after the import
    added: int  # answers
    changed: tuple[tuple[Response, Response], ...] = ()  # answers before and after
    unfinished: tuple[Unfinished, ...] = ()


@dataclass(frozen=True, eq=False)
class Project:
    """The state of a project, read once; each step writes it and returns the state after it.

    A step of a project that another process, or another step, has written to since begins from the new state.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.split("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.split("test").image_ids.tolist()})
        >>> project = Project.create(tempfile.mkdtemp(), library, name="ours")
        >>> project = project.propose({"first": run}, ProposalOptions(budget=36))
        >>> len(project.rounds[0].sheets), len(project.questions[0])
        (2, 20)
    """

    folder: Path
    library: Library  # the raw sources
    facts: ProjectFacts
    rounds: tuple[Round, ...] = ()  # in order; none before the first is proposed
    responses: Sequence[Response] = ()  # that count; sheets and people in the order in which they were answered
    decisions: Decisions = field(default_factory=Decisions)
    sizes: tuple[int, ...] = (0, 0, 0)  # of the files, as they were read

    @property
    def name(self) -> str:
        """The name of the source of labels that the project makes."""
        return self.facts.name

    @property
    def scheme(self) -> Scheme:
        """How people are asked."""
        return schemes()[self.facts.scheme]

    @property
    def split(self) -> Split:
        """The split of COCO."""
        return self.library.split(self.facts.split)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        library: Library,
        name: str,
        *,
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
        usable = [each.name for each in schemes().values() if each.in_projects]
        if scheme not in usable:
            raise UnknownName("scheme", scheme, usable)
        content = library.split(split)
        data = SplitFacts(
            captions=content.caption_ids.size,
            content=content.fingerprint,
            edition=library.edition,
            images=content.image_ids.size,
            version=library.catalog.version,
        )
        return cls(folder, library, ProjectFacts(name, scheme, split, seed, data))

    @classmethod
    def open(cls, folder: str | Path, library: Library) -> Project:
        """Open the project in a folder, and check all its files."""
        folder = Path(folder)
        sizes = measure_files(folder)
        facts, rounds = read_rounds(folder)
        if facts is None:
            raise SourceMissing(
                f"{folder} has no round in {ROUNDS}; cxc-eccv annotate propose makes an annotation project"
            )
        data = facts.data
        content = library.split(facts.split)
        if data.content != content.fingerprint:
            raise DataError(
                f"{folder} is about the split {facts.split!r} of edition {data.edition}, with {data.images} "
                f"images and {data.captions} captions, but this data is another: edition {library.edition}, with "
                f"{content.image_ids.size} images and {content.caption_ids.size} captions. Give the project's data "
                "(--data-dir), or start another project."
            )
        return cls(
            folder=folder,
            library=library,
            facts=facts,
            rounds=rounds,
            responses=read_responses(folder, rounds),
            decisions=read_decisions(folder),
            sizes=sizes,
        )

    def refresh(self) -> Project:
        """This state, or the one in the folder if anything was written there since."""
        return self if measure_files(self.folder) == self.sizes else Project.open(self.folder, self.library)

    def propose(
        self,
        runs: Mapping[str, Run],
        options: ProposalOptions | None = None,
        *,
        size: int = CANDIDATES_A_SHEET,
        leave_open: bool = False,
        without_reasons: bool = False,
    ) -> Project:
        """Add a round: candidates that no earlier round asked about, in sheets with known pairs among them.

        Pairs of sheets with only rejected answers can be proposed again.

        Args:
            runs: name of each model to its run.
            options: which pairs to propose. The project sets the seed, the sides, and the pairs that were asked before.
            size: candidates of a sheet.
            leave_open: add the round although sheets have no answer; they can still be answered.
            without_reasons: do not ask for reasons, as in ECCV Caption's second stage.
        """
        if not leave_open:
            self._refuse_open()
        options = replace(
            options or ProposalOptions(),
            seed=self.facts.seed,
            sides=self.scheme.sides,
            asked=self._list_asked() if self.rounds else None,
        )
        proposal = propose(runs, self.split, options)
        scheme = self.scheme.without_reasons() if without_reasons else self.scheme
        first = self.rounds[-1].numbers.stop if self.rounds else 0
        questionnaire = Questionnaire(scheme, self._build_sheets(proposal, options, size), first)
        tables = proposal.candidates, proposal.known
        added = Round(len(self.rounds) + 1, proposal.facts, *tables, questionnaire)
        with hold(self.folder):
            if measure_files(self.folder) != self.sizes and len(read_rounds(self.folder)[1]) >= added.number:
                raise DataError(
                    f"another process added round {added.number} to {self.folder} in the meantime, so this one was not "
                    "written. Look at that round, then propose again"
                )
            add_round(self.folder, self.facts, added)
            return replace(self, rounds=(*self.rounds, added), sizes=measure_files(self.folder))

    def find_changed_labels(self) -> list[str]:
        """Names of the label files that the last round reads changed, or not at all, since the round before."""
        before, after = ([{}, {}, *(each.facts.options.get("labels", {}) for each in self.rounds)])[-2:]
        return [name for name, sha in before.items() if name != self.name and after.get(name) != sha]

    def _build_sheets(self, proposal: Proposal, options: ProposalOptions, size: int) -> list[list[Question]]:
        """The sheets of a new round; DataError if nothing is left to ask."""
        if not proposal.candidates.num_rows:
            counts = proposal.facts.counts
            raise DataError(
                f"strategy {proposal.facts.strategy} has no pair left to ask about: of {counts['distinct']:,} "
                f"proposed pairs, {counts['known_positive']:,} are known to match, {counts['judged_negative']:,} known "
                f"not to match, and {counts['asked_before']:,} were asked before. Use more models, more queries or a "
                "larger depth, or another strategy."
            )
        known_pairs = replace(self.find_known(options), is_near=proposal.is_near)
        return build_sheets(proposal.candidates, known_pairs, size=size, seed=self.facts.seed + len(self.rounds))

    def find_known(self, options: ProposalOptions) -> KnownPairs:
        """What known pairs are drawn from: the split, or its first images with ``limit``."""
        every = self.split
        part = every.first(options.limit)
        invalid = self.library.invalid_ids("image"), self.library.invalid_ids("caption")
        absent = np.setdiff1d(every.image_ids, part.image_ids), np.setdiff1d(every.caption_ids, part.caption_ids)
        unusable = np.union1d(invalid[0], absent[0]), np.union1d(invalid[1], absent[1])
        return KnownPairs(
            content=part,
            sides=self.scheme.sides,
            positive=find_matches(self.split, options, self.candidates),
            invalid=invalid,
            rated=find_rated(self.split, self.scheme, unusable),
        )

    def _refuse_open(self) -> None:
        """Raise InvalidOption if sheets of the last round have no answer."""
        for last in self.rounds[-1:]:
            still = set(last.numbers) & set(self.open_sheets())
            if still:
                raise InvalidOption(
                    f"{len(still)} of {len(last.sheets)} sheets of round {last.number} have no answer yet. "
                    "Import answers to them first, or leave them open (--leave-open)."
                )

    def _list_asked(self) -> pa.Table:
        """Candidates of all rounds, without those of sheets with only rejected answers."""
        is_rejected = (self.verdicts["verdict"] == REJECTED).groupby(self.verdicts["sheet"]).all()
        rejected = is_rejected.index[is_rejected]
        questions = chain(*(self.questions[number] for number in rejected))
        again = {(question.image_id, question.caption_id) for question in questions}
        candidates = self.candidates.select(PAIR)
        is_asked = [(row["image_id"], row["caption_id"]) not in again for row in candidates.to_pylist()]
        return candidates.filter(pa.array(is_asked, pa.bool_()))

    def add_answers(
        self,
        paths: Iterable[str | Path],
        form: str | None = None,
        *,
        replace: bool = False,
        workers: Sequence[str] | None = None,
    ) -> Imported:
        """Add complete answered sheets, or nothing if any line is wrong.

        Answers that were imported before are ignored. A different answer of the same person to the same question is an
        error, unless ``replace`` lets the new one count. ``form`` is a name of
        :func:`cxc_eccv.studies.asking.formats.formats`; None to tell it by the suffix of each file.
        ``workers`` are the persons of the files, for files that do not name people.
        """
        with hold(self.folder):
            now = self.refresh()
            latest = {(response.key, response.pair_id): response for response in now.responses}
            questionnaires = [each.questionnaire for each in now.rounds]
            reading = read_answers(paths, questionnaires, form, replace=replace, earlier=now.responses, workers=workers)
            added = []
            changed = []
            for response in reading.responses:
                before = latest.get((response.key, response.pair_id))
                if before is None:
                    added.append(response)
                elif response.differs(before):
                    if not replace:
                        file = response.origin.partition(", ")[0]
                        raise differing_answers(file, response, before, "or let the new one count (--replace)")
                    changed.append((before, response))
            add_answers(now.folder, [*added, *(response for _, response in changed)])
            responses = read_responses(now.folder, now.rounds)
            after = dataclasses.replace(now, responses=responses, sizes=measure_files(now.folder))
        return Imported(after, len(added), tuple(changed), reading.unfinished)

    def decide(self, decision: Decision) -> Project:
        """Record a decision."""
        with hold(self.folder):
            now = self.refresh()
            for worker in decision.workers.keys() - set(now.answers["worker"]):
                raise InvalidOption(f"worker {shown(worker)} has no answers in this project")
            before = now.decisions.checks
            after = apply_decision(before, decision, now.answers)
            if after == before:
                return now
            new = {key: good for key, good in after.by_hand.items() if before.by_hand.get(key) != good}
            add_decision(self.folder, replace(decision, sheets=new))
            decisions = replace(now.decisions, checks=after)
            return replace(now, decisions=decisions, sizes=measure_files(self.folder))

    def open_sheets(self, people: int = 1) -> list[int]:
        """Numbers of the sheets with a question that fewer people than this answered, rejected answers left out."""
        counts = Counter((response.sheet, response.pair_id) for response in self._list_standing())
        numbers = []
        for number, sheet in enumerate(self.questions):
            if min(counts[number, question.pair_id] for question in sheet) < people:
                numbers.append(number)
        return numbers

    def finished_sheets(self) -> set[SheetKey]:
        """Number of a sheet and person, for all who answered all of a sheet and are not rejected."""
        counts = Counter(response.key for response in self._list_standing())
        return {key for key, number in counts.items() if number == len(self.questions[key[0]])}

    def _list_standing(self) -> list[Response]:
        """The answers that are accepted or doubtful."""
        standing = self.verdicts[self.verdicts["verdict"] != REJECTED]
        keys = set(zip(standing["sheet"], standing["worker"], strict=True))
        return [response for response in self.responses if response.key in keys]

    @cached_property
    def candidates(self) -> pa.Table:
        """The candidates of all rounds, each pair once, as :func:`unite_candidates`."""
        return unite_candidates([each.candidates for each in self.rounds])

    @cached_property
    def questions(self) -> list[Sequence[Question]]:
        """The sheets of all rounds; the index of a sheet is its number."""
        return list(chain(*(each.sheets for each in self.rounds)))

    @cached_property
    def answers(self) -> pd.DataFrame:
        """The answers of all rounds that count; ``sheet`` is the index in :attr:`questions`."""
        return tabulate(map(asdict, sorted(self.responses, key=lambda response: response.key)))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """A verdict on every answered sheet, as :func:`cxc_eccv.studies.asking.sheet_quality.judge_sheets`."""
        return judge_sheets(self.answers, self.decisions.checks)


def apply_decision(before: Checks, decision: Decision, answers: pd.DataFrame) -> Checks:
    """The checks after a decision. A person who is accepted has all doubtful sheets accepted, unless decided singly."""
    accepted = {worker for worker, counts in decision.workers.items() if counts}
    rejected = decision.workers.keys() - accepted
    checks = replace(
        before,
        by_hand={**before.by_hand, **decision.sheets},
        rejected_workers=(before.rejected_workers - accepted) | rejected,
        **decision.settings,
    )
    judged = judge_sheets(answers, checks)  # raises for a sheet without answers
    doubtful = judged[(judged["verdict"] == BY_HAND) & judged["worker"].isin(accepted)]
    good = dict.fromkeys(zip(doubtful["sheet"].tolist(), doubtful["worker"], strict=True), True)
    return replace(checks, by_hand={**good, **checks.by_hand})


def unite_candidates(rounds: Iterable[pa.Table]) -> pa.Table:
    """The candidates of several rounds, a row per pair, in the order in which they were first asked about.

    A proposal belongs to a round. A pair that was asked again has the proposals of all its rounds, each once, and the
    sources that knew it in any of them; its strategy and its priority are those of the first round, which is the only
    one that can draw pairs by chance.
    """
    rows: dict[tuple[int, int], dict[str, Any]] = {}
    for row in pa.concat_tables([CANDIDATES.empty_table(), *rounds]).to_pylist():
        first = rows.setdefault((row["image_id"], row["caption_id"]), row)
        for name in ("proposals", "known"):
            first[name] += [value for value in row[name] if value not in first[name]]
    return pa.Table.from_pylist(list(rows.values()), schema=CANDIDATES)
