"""Sockets, ports and interfaces of this host."""
