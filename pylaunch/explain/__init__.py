"""What a failure is put down to: pure judgements of what the nodes of a run reported."""
