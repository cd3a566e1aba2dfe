"""What runs on nodes: standard library only, Python ≥ 3.8, one zipapp. The controller imports only `wire`."""
