"""Work that several processes share, or one after another: shards of an encoding, and ranks of a split gallery."""
