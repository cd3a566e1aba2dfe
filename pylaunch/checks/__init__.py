"""Would a run work, and if not, why: facts of all hosts at once, judged by pure checks."""
