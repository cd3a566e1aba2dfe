"""A real cluster on one Linux machine, for newcomers and for every test that needs one.

    lab       up, load, down: the life of a cluster         local      the same inventory without real nodes
    status    what is there now                             faults     what can go wrong, each with its undo
    node      a node with its faults                        machine    the container behind it: run, write, read
    boot      its files, its start, its readiness           supervise  what becomes its nspawn
    cgroup    how it is found, frozen and ended             network    bridge, addresses, NAT
    image     the system all nodes share                    recipe     what that is made from (pure)
    spec      what is kept on disk, and where               locks      who may change it
    tools     what the controller needs for all this        kernel     settings lent from this machine's kernel
    cluster_file  the inventory and host keys it gives

A node is a systemd-nspawn container over an overlay that is mounted in the node's own mount namespace only, with all
of its processes in one cgroup. So whatever kills pylaunch, ending that cgroup ends the node and takes its mounts along;
what remains on the machine (a bridge, an nftables table, empty cgroups) has names that follow from the lab's name.
"""
