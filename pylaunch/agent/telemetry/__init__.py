"""Utilization of the node while a controller watches."""
