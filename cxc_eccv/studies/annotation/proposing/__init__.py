"""Which pairs people are asked about.

- ``candidates`` is the front door: models and the name of a strategy, to candidates.
- ``pool`` is what a strategy chooses from: the pairs of a split, the models' lists of
  them, and which of them are still open.
- ``strategies`` has one file for each: the papers' three, which ask about what models retrieve, and those that choose
  what is worth asking: where models disagree, a classifier is in doubt, or a label would move a number; and chance.
"""

from cxc_eccv.studies.annotation.proposing.candidates import CANDIDATES, Proposal, propose

__all__ = ["CANDIDATES", "Proposal", "propose"]
