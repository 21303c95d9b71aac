"""A request body on its way to becoming an object: decoded, pruned, defaulted, prepared, judged."""
