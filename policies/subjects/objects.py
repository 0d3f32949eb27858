"""Subjects that are whole resources of given kinds, Kubernetes or AWS."""

from __future__ import annotations

from policies.engine.resource import Subject


def objects(*kinds: str) -> Subject:
    """Resources of `kinds`, written as `kubernetes:core:Service` or `aws:s3:Bucket`, each as one part."""
    return Subject("object", frozenset(kinds), lambda resource: (resource,))
