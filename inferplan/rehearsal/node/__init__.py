"""A real node next to the fake ones of a simulated cluster: kubelet, containerd and a network of its
own, in namespaces that end with one process.
"""
