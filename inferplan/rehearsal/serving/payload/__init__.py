"""The model stubs of a rehearsal: one process that speaks the protocols of every model server, and
follows the replicas of the cluster.
"""
