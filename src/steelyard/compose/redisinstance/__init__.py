"""From a RedisInstance to servers on this machine or a Helm release: `composing.py` first, which asks the others."""
