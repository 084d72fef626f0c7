"""Choose the pairs that people are asked about.

- ``candidates`` has the main call, from models and the name of a strategy to candidates.
- ``pool`` is what a strategy chooses from (the pairs of a split, the models' ranked lists, and which pairs are open),
  and the proposal that is made of its choice.
- ``alike`` chooses pairs by the other modality, as Crisscrossed Captions does.
- ``strategies`` has a file for each strategy: the three of the papers, which ask about retrieved pairs; those that
  choose informative pairs, by disagreement of models, doubt of a classifier or effect on a metric; and random pairs.
"""

from cxc_eccv.studies.annotation.proposing.candidates import propose
from cxc_eccv.studies.annotation.proposing.pool import CANDIDATES, Proposal

__all__ = ["CANDIDATES", "Proposal", "propose"]
