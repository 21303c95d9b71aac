"""What this server has been told of: its resources with all that the verbs need to know about each, the webhooks
and policies that want a say, and the discovery documents that tell others.
"""
