"""Ranks that waited or lost a connection, and the rank behind them: the one that is silent, late or elsewhere. Pure."""
