"""Generator of the embedded sample: drawn scenes of coloured shapes in the raw formats of the real sources."""
