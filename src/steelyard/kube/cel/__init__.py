"""CEL, the language of the validation rules in CustomResourceDefinitions, with the functions Kubernetes adds to it."""
