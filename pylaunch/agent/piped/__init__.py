"""Programs that the controller pipes to a host that needs no agent for them; unlike the probe, they may act."""
