"""Choose the pairs that people are asked about.

- ``candidates`` has the main call, from models and the name of a strategy to candidates.
- ``pool`` is what a strategy chooses from (the pairs of a split, the models' ranked lists, and which pairs are open),
  and the proposal that is made of its choice.
- ``alike`` chooses pairs by the other modality, as Crisscrossed Captions does.
- ``strategies`` and ``active`` hold the other strategies: those of the papers, by disagreement, and by chance.
"""

from cxc_eccv.studies.annotation.proposing.candidates import propose
from cxc_eccv.studies.annotation.proposing.pool import CANDIDATES, Proposal, ProposalFacts, ProposalOptions

__all__ = ["CANDIDATES", "Proposal", "ProposalFacts", "ProposalOptions", "propose"]
