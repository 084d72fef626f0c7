"""Work shared by several processes: shards of an encoding, and ranks of a split gallery."""
