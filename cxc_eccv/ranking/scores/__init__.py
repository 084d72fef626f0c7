"""Where blocks of scores come from: each source fills rows ``start`` to ``stop`` of a matrix."""
