"""From bytes to values and back: request bodies in JSON, YAML and protobuf with Go's words for what is wrong in
them, query options, and answers in the form that the client accepts.
"""
