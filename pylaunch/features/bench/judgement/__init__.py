"""Communication tests, decided: bandwidths, sizes, rounds of pairs, slow nodes, bounds, comparisons. Pure.

operations     collectives, and the bandwidths of nccl-tests
sweep          sizes, iterations and limits that a person may choose
measurements   lines of ranks, decoded
pairs          suspects among nodes and links, from rounds of disjoint pairs
confirmation   suspects measured again, and the verdict
peers          devices and file systems that are slow relative to their peers
bounds         the tightest bound that the hardware sets
rates          rates between nodes, from the lines of their ranks
baseline       comparison with earlier results of this cluster
plots, page    results as SVG, and as one HTML page
summary        results as the records of the runs keep them
ranks/         the program that measures; shipped to the nodes
"""
