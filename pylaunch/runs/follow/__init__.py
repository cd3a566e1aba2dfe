"""From the release to the end of a run: output, ends, decisions."""
