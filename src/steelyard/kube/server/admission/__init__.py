"""Webhooks: other people's programs that judge, change and convert objects on their way in and out."""
