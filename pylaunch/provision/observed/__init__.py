"""The actual state of hosts, and how it differs from the desired one."""
