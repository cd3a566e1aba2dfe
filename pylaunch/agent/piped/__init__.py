"""Programs that the controller pipes to a host, without an agent. Unlike the probe, they may change the host."""
