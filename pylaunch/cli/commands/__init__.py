"""One module per verb: parse, call the workflow, show what it answers."""
