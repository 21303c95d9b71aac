"""OpenAPI documents, version 3 and version 2, of what is served."""
