"""The Kubernetes REST API on top of the store: discovery, verbs, patches, apply, watch, admission, tables."""
