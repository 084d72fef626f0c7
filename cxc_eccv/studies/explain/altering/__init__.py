"""Sentences whose meaning changes at one place: words are tagged, places found by kind, one of them chosen by seed.

A kind is one file in ``kinds``, which says where a sentence can be changed, and to what; ``alter`` chooses. It stands
below the dataset configs, of which ``adversarial`` is made with it, and so below ``explain``, which asks a model about
the result.
"""

from cxc_eccv.studies.explain.altering.alter import Altered, all_kinds, alter, alter_tagged, require_seed
from cxc_eccv.studies.explain.altering.kind import Change, Kind, Places, substitute
from cxc_eccv.studies.explain.altering.sentences import TAGGER, Sentence, Word, describe_tagger, tag_sentences

__all__ = [
    "TAGGER",
    "Altered",
    "Change",
    "Kind",
    "Places",
    "Sentence",
    "Word",
    "all_kinds",
    "alter",
    "alter_tagged",
    "describe_tagger",
    "require_seed",
    "substitute",
    "tag_sentences",
]
