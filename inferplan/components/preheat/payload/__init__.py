"""The program that runs inside the preheat Job: copies a model, verifies it, and marks it READY.

It needs Python 3.11's standard library and an rclone on PATH, nothing else, and travels to the Job as a ConfigMap.
"""
