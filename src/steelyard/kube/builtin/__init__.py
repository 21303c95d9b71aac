"""The built-in kinds of Kubernetes: their names, fields, merge keys and protobuf numbers, as data tables."""
