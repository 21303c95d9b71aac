"""What one can ask of a resource: get, list, watch, create, update, patch, apply, delete, and its subresources.
Verbs take a `Call` and give a `Reply`; they know no transport.
"""
