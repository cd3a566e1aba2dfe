"""A real cluster on one Linux machine, for newcomers and for every test that needs one.

    lab       up, load and down of a lab         local      the same inventory without real nodes
    status    the current state of the nodes                faults     faults to inject, each with its undo
    node      a node with its faults                        machine    the container behind it: run, write, read
    boot      its files, its start, its readiness           supervise  the process that becomes its nspawn
    cgroup    find, freeze and kill its processes           network    bridge, addresses, NAT
    image     the root file system of all nodes             recipe     the inputs of the image (pure)
    spec      the lab's files and their places              locks      exclusive changes
    tools     programs that the controller needs            kernel     kernel settings that labs raise
    cluster_file  the inventory and host keys of the lab

A node is a systemd-nspawn container over an overlay that is mounted in the node's own mount namespace only, with all
of its processes in one cgroup. So whatever kills pylaunch, ending that cgroup ends the node and takes its mounts along;
what remains on the machine (a bridge, an nftables table, empty cgroups) has names that follow from the lab's name.
"""
