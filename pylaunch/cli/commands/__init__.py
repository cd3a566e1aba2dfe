"""One module per verb: parse, call the function of its room, show what it returns."""
