"""Tests of kcli.backup: runs, manifests, what is copied, where partitions end, what is restored."""
