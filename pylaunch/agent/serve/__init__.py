"""The agent process: it accepts controllers, and answers for runs that are over."""
