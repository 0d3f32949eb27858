"""The answers of a rehearsal: processes that take requests on loopback, the gateway's proxy and the
stubs of the models.
"""
