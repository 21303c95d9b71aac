"""From a RedisInstance to a Helm release: `composing.py` first, which asks the others."""
