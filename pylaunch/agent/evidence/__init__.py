"""Evidence of a rank's end and the state of the other ranks, read on the node before any cleanup."""
