"""External Secrets: the definitions of its kinds, made by `tools/facts` from its Go module, so that the embedded
platform serves them, and their words.
"""
