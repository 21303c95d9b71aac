"""What kinds are: CustomResourceDefinitions, what upstream asks of them and what is reported about them, and
built-in kinds that are one thing under two names.
"""
