"""Other people's definitions: each is established by both servers or refused by both for the same reason. A valid
object of its kind is accepted by both; three broken ones are refused by both with the same causes.

The definitions are test data beside the repository (`../shared/crds`); without them this subject is skipped by name.
"""
