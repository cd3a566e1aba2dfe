"""Messages between the agents of one run, so that a failure reaches every node without a controller."""
