"""A distribution of plug-in backends, installed for real by the tests: good ones, broken ones, ones that are wrong.

Rules of this package: backends.py runs in the tests' process but is installed from a copy, and imports nothing of ours.
"""
