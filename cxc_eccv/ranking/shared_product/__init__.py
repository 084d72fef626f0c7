"""One product that serves twice: both cross-modal directions, or both orders within one modality."""
